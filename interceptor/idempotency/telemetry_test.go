package idempotency_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/interceptor/idempotency"
)

// observe makes one call of each kind and returns what was measured.
func observe(t *testing.T) (metricdata.ScopeMetrics, tracetest.SpanStubs) {
	t.Helper()
	reader := metric.NewManualReader()
	spans := tracetest.NewInMemoryExporter()
	opts := []idempotency.ServerOption{
		idempotency.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))),
		idempotency.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))),
		idempotency.WithScope(func(ctx context.Context) (string, error) {
			if metadata.ValueFromIncomingContext(ctx, "stranger") != nil {
				return "", errors.New("who is it")
			}
			return "secret-scope", nil
		}),
	}
	s := newServer(t, dedup.NewMemory(), opts...)
	defer s.Close()
	ok := func(context.Context, any) (any, error) { return &errdetails.ResourceInfo{Owner: "secret-owner"}, nil }
	for range 3 {
		if _, _, err := intercept(t.Context(), s, "secret-key", ok); err != nil {
			t.Fatal(err)
		}
	}
	call := func(data string, md metadata.MD) {
		_, _ = s.Intercept(metadata.NewIncomingContext(t.Context(), md), request(data), &grpc.UnaryServerInfo{FullMethod: place}, ok)
	}
	call("b", metadata.Pairs(idempotency.MetadataKey, "secret-key"))
	call("a", metadata.Pairs(idempotency.MetadataKey, "secret key"))
	call("a", nil)
	call("a", metadata.Pairs(idempotency.MetadataKey, "secret-2", "stranger", "1"))
	var rm metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &rm); err != nil {
		t.Fatal(err)
	}
	if len(rm.ScopeMetrics) != 1 {
		t.Fatalf("%d scopes", len(rm.ScopeMetrics))
	}
	return rm.ScopeMetrics[0], spans.GetSpans()
}

func TestOperationsAreCountedByResult(t *testing.T) {
	sm, _ := observe(t)
	got := make(map[string]int64)
	for _, m := range sm.Metrics {
		sum, ok := m.Data.(metricdata.Sum[int64])
		if m.Name != "retrysafe.server.operations" || !ok {
			continue
		}
		for _, p := range sum.DataPoints {
			result, _ := p.Attributes.Value("retrysafe.result")
			method, _ := p.Attributes.Value("grpc.method")
			got[result.AsString()+" "+method.AsString()] = p.Value
		}
	}
	const method = " idempotency.test.v1.Orders/Place"
	want := map[string]int64{"executed" + method: 1, "replayed" + method: 2, "reused" + method: 1,
		"key_invalid" + method: 1, "key_required" + method: 1, "failed" + method: 1}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}

func TestMetricsHaveTheirNamesAndUnits(t *testing.T) {
	sm, _ := observe(t)
	got := make(map[string]string)
	for _, m := range sm.Metrics {
		got[m.Name] = m.Unit
		if m.Description == "" {
			t.Errorf("%s has no description", m.Name)
		}
	}
	want := map[string]string{
		"retrysafe.server.operations": "{operation}", "retrysafe.server.operation.duration": "s",
		"retrysafe.server.store.duration": "s", "retrysafe.server.claims": "{claim}",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("measured %v, want %v", got, want)
	}
}

func TestAnEffectWithoutARecordIsCounted(t *testing.T) {
	reader := metric.NewManualReader()
	s := newServer(t, dedup.NewMemory(), idempotency.WithMaxOutcome(10),
		idempotency.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))))
	defer s.Close()
	_, _, err := intercept(t.Context(), s, "k1", func(context.Context, any) (any, error) {
		return &errdetails.ResourceInfo{Owner: "larger than ten bytes"}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var rm metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &rm); err != nil {
		t.Fatal(err)
	}
	for _, m := range rm.ScopeMetrics[0].Metrics {
		if m.Name == "retrysafe.server.unrecorded" && m.Data.(metricdata.Sum[int64]).DataPoints[0].Value == 1 {
			return
		}
	}
	t.Error("retrysafe.server.unrecorded was not counted")
}

func TestClaimsThatHaveEndedAreNotHeld(t *testing.T) {
	sm, _ := observe(t)
	for _, m := range sm.Metrics {
		if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == "retrysafe.server.claims" && sum.DataPoints[0].Value != 0 {
			t.Errorf("%d claims are held", sum.DataPoints[0].Value)
		}
	}
}

func TestASpanTellsTheResult(t *testing.T) {
	_, spans := observe(t)
	var results []string
	for _, s := range spans {
		if s.Name != "retrysafe.operation" {
			t.Errorf("a span named %s", s.Name)
		}
		set := attribute.NewSet(s.Attributes...)
		v, _ := set.Value("retrysafe.result")
		results = append(results, v.AsString())
	}
	if got := strings.Join(results, " "); got != "executed replayed replayed reused" {
		t.Errorf("the spans say %s", got)
	}
}

func TestTheHandlerRunsInTheSpan(t *testing.T) {
	s := newServer(t, dedup.NewMemory(), idempotency.WithTracerProvider(sdktrace.NewTracerProvider()))
	defer s.Close()
	_, _, err := intercept(t.Context(), s, "k1", func(ctx context.Context, _ any) (any, error) {
		if !trace.SpanContextFromContext(ctx).IsValid() {
			t.Error("no span in the handler's context")
		}
		return &errdetails.ResourceInfo{}, nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestTelemetryHoldsNoKeyScopeOrPayload(t *testing.T) {
	sm, spans := observe(t)
	var b bytes.Buffer
	fmt.Fprintf(&b, "%+v %+v", sm, spans)
	if strings.Contains(b.String(), "secret") {
		t.Error("what is measured holds a key, a scope or a payload")
	}
	if !strings.Contains(b.String(), "retrysafe.result") {
		t.Error("the search would find nothing")
	}
}
