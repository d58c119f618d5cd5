package retry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/retrysafe/retrysafe/interceptor/idempotency"
	"github.com/retrysafe/retrysafe/interceptor/retry"
)

// collect returns the metrics that a reader has, by name.
func collect(t *testing.T, reader metric.Reader) map[string]metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	byName := make(map[string]metricdata.Metrics)
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			byName[m.Name] = m
		}
	}
	return byName
}

func histogram[N int64 | float64](t *testing.T, m metricdata.Metrics) metricdata.HistogramDataPoint[N] {
	t.Helper()
	h, ok := m.Data.(metricdata.Histogram[N])
	if !ok || len(h.DataPoints) != 1 {
		t.Fatalf("%s is %T with not one point", m.Name, m.Data)
	}
	return h.DataPoints[0]
}

func TestMetricsAreThoseOfA96(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		reader := metric.NewManualReader()
		provider := retry.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))
		c := newClient(t, answering(errDown, errDown, nil), provider, retry.WithPolicy(steady(4)))
		if err := c.callMethod(t.Context(), readOnly); err != nil {
			t.Fatal(err)
		}
		got := collect(t, reader)

		retries := got["grpc.client.call.retries"]
		if retries.Unit != "{retry}" {
			t.Errorf("unit is %q", retries.Unit)
		}
		p := histogram[int64](t, retries)
		if p.Sum != 2 || p.Count != 1 || !slices.Equal(p.Bounds, []float64{1, 2, 3, 4, 5}) {
			t.Errorf("retries: sum %d, count %d, bounds %v", p.Sum, p.Count, p.Bounds)
		}
		want := attribute.NewSet(attribute.String("grpc.method", readOnly[1:]), attribute.String("grpc.target", ""))
		if !p.Attributes.Equals(&want) {
			t.Errorf("attributes are %v", p.Attributes.ToSlice())
		}

		delay := got["grpc.client.call.retry_delay"]
		if delay.Unit != "s" {
			t.Errorf("unit is %q", delay.Unit)
		}
		d := histogram[float64](t, delay)
		if d.Sum < 0.2999 || d.Sum > 0.3001 || d.Count != 1 || len(d.Bounds) != 41 || d.Bounds[1] != 0.00001 || d.Bounds[40] != 100 {
			t.Errorf("retry delay: sum %v, count %d, bounds %v", d.Sum, d.Count, d.Bounds)
		}
		tokens, ok := got["retrysafe.client.budget.tokens"].Data.(metricdata.Gauge[float64])
		if !ok || len(tokens.DataPoints) != 1 || tokens.DataPoints[0].Value != 98.1 {
			t.Errorf("tokens are %+v, want 98.1", got["retrysafe.client.budget.tokens"].Data)
		}
	})
}

func TestZeroIsNotRecorded(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		reader := metric.NewManualReader()
		provider := retry.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))
		c := newClient(t, answering(nil), provider)
		if err := c.call(t.Context()); err != nil {
			t.Fatal(err)
		}
		c = newClient(t, answering(errDown, nil), provider, retry.WithPolicy(immediate))
		if err := c.call(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := collect(t, reader)
		if p := histogram[int64](t, got["grpc.client.call.retries"]); p.Count != 1 {
			t.Errorf("retries were recorded %d times, want once", p.Count)
		}
		if _, ok := got["grpc.client.call.retry_delay"]; ok {
			t.Error("a delay of zero was recorded")
		}
	})
}

func TestExhaustedCallsAreCountedByReason(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		reader := metric.NewManualReader()
		provider := retry.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))
		_ = newClient(t, answering(errDown), provider).call(t.Context())
		_ = newClient(t, pushing(says("-1")), provider).call(t.Context())
		_ = newClient(t, answering(errDown), provider, retry.WithMethodSafety("*", retry.SafetyUnsafe)).call(t.Context())
		_ = newClient(t, answering(errAbsent), provider).call(t.Context())
		sum, ok := collect(t, reader)["retrysafe.client.call.exhausted"].Data.(metricdata.Sum[int64])
		if !ok {
			t.Fatal("nothing was counted")
		}
		counts := make(map[string]int64)
		for _, p := range sum.DataPoints {
			reason, _ := p.Attributes.Value("retrysafe.reason")
			code, _ := p.Attributes.Value("grpc.status")
			method, _ := p.Attributes.Value("grpc.method")
			counts[reason.AsString()+" "+code.AsString()+" "+method.AsString()] += p.Value
		}
		for _, want := range []string{"MAX_ATTEMPTS UNAVAILABLE other", "PUSHBACK UNAVAILABLE other", "NOT_RETRY_SAFE UNAVAILABLE other"} {
			if counts[want] != 1 {
				t.Errorf("%s was counted %d times, want once: %v", want, counts[want], counts)
			}
		}
		if len(counts) != 3 {
			t.Errorf("counts are %v", counts)
		}
	})
}

func TestASpanHasAnEventForEachAttempt(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		spans := tracetest.NewSpanRecorder()
		provider := trace.NewTracerProvider(trace.WithSpanProcessor(spans))
		ctx, parent := provider.Tracer("test").Start(t.Context(), "parent")
		s := answering(errDown)
		_ = newClient(t, s, retry.WithTracerProvider(provider), retry.WithPolicy(steady(3)), keyed).callMethod(ctx, required)
		parent.End()
		if n := len(spans.Ended()); n != 2 {
			t.Fatalf("there are %d spans, want 2", n)
		}
		span := spans.Ended()[0]
		if span.Name() != "retry "+required[1:] || span.Parent().SpanID() != parent.SpanContext().SpanID() {
			t.Errorf("span %q has parent %v", span.Name(), span.Parent().SpanID())
		}
		if len(span.Events()) != 3 {
			t.Fatalf("there are %d events, want 3", len(span.Events()))
		}
		event := attribute.NewSet(span.Events()[2].Attributes...)
		for key, want := range map[attribute.Key]attribute.Value{
			"retrysafe.attempt": attribute.IntValue(3), "grpc.status": attribute.StringValue("UNAVAILABLE"),
			"retrysafe.wait": attribute.Float64Value(0.2), "retrysafe.ceiling": attribute.Float64Value(0.2),
		} {
			if got, _ := event.Value(key); got != want {
				t.Errorf("%s is %v, want %v", key, got.AsInterface(), want.AsInterface())
			}
		}
		attributes := attribute.NewSet(span.Attributes()...)
		if reason, _ := attributes.Value("retrysafe.reason"); reason.AsString() != "MAX_ATTEMPTS" {
			t.Errorf("attributes are %v", span.Attributes())
		}
		if k := oneKey(t, s); strings.Contains(strings.Join(texts(span), " "), k) {
			t.Error("the span shows the key")
		}
	})
}

// texts returns every string in a span.
func texts(span trace.ReadOnlySpan) []string {
	all := []string{span.Name(), span.Status().Description}
	for _, a := range span.Attributes() {
		all = append(all, a.Value.String())
	}
	for _, e := range span.Events() {
		for _, a := range e.Attributes {
			all = append(all, a.Value.String())
		}
	}
	return all
}

func TestTheLogTellsAttemptsAndTheEnd(t *testing.T) {
	const secret = "order-42"
	for _, tt := range []struct {
		name   string
		server *server
		opts   []retry.Option
		levels []string
		last   map[string]any
	}{
		{"exhausted", answering(errDown), nil, []string{"DEBUG", "DEBUG", "WARN"},
			map[string]any{"msg": "call exhausted", "reason": "MAX_ATTEMPTS", "attempts": 2.0, "code": "UNAVAILABLE", "method": method, "waited": 1e8}},
		{"a success", answering(errDown, nil), nil, []string{"DEBUG", "DEBUG", "DEBUG"},
			map[string]any{"msg": "call ended", "attempts": 2.0, "code": "OK"}},
		{"an answer that is not retried", answering(errAbsent), nil, []string{"DEBUG", "DEBUG"},
			map[string]any{"msg": "call ended", "attempts": 1.0, "code": "NOT_FOUND"}},
		{"an Unsafe call", answering(errDown), []retry.Option{retry.WithMethodSafety("*", retry.SafetyUnsafe)}, []string{"DEBUG"},
			map[string]any{"msg": "call exhausted", "reason": "NOT_RETRY_SAFE"}},
		{"an Unsafe call that succeeds", answering(nil), []retry.Option{retry.WithMethodSafety("*", retry.SafetyUnsafe)}, []string{"DEBUG"},
			map[string]any{"msg": "call ended", "attempts": 1.0, "code": "OK"}},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			var out bytes.Buffer
			log := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
			opts := append([]retry.Option{keyed, retry.WithPolicy(steady(2)), retry.WithLogger(log)}, tt.opts...)
			_ = newClient(t, tt.server, opts...).call(idempotency.WithKey(t.Context(), secret))
			if strings.Contains(out.String(), secret) {
				t.Error("the log shows the key")
			}
			var levels []string
			var last map[string]any
			for line := range strings.Lines(out.String()) {
				last = make(map[string]any)
				if err := json.Unmarshal([]byte(line), &last); err != nil {
					t.Fatal(err)
				}
				levels = append(levels, last["level"].(string))
			}
			if !slices.Equal(levels, tt.levels) {
				t.Errorf("levels are %q, want %q:\n%s", levels, tt.levels, out.String())
			}
			for key, want := range tt.last {
				if last[key] != want {
					t.Errorf("%s is %v, want %v", key, last[key], want)
				}
			}
		})
	}
}

func TestAnAttemptsLineHasTheWaitBeforeIt(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		_ = newClient(t, answering(errDown), retry.WithPolicy(steady(2)), retry.WithLogger(log)).call(context.Background())
		want := "msg=attempt method=" + method + ` target="" attempt=2 code=UNAVAILABLE took=0s wait=100ms ceiling=100ms jitter=NONE pushback=false`
		if !strings.Contains(out.String(), want) {
			t.Errorf("log has no %q:\n%s", want, out.String())
		}
	})
}

// Nobody who watches changes what happens.
func TestObserversDoNotChangeTheOutcome(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := answering(errDown)
		start := time.Now()
		err := newClient(t, s, retry.WithPolicy(steady(3)), keyed,
			retry.WithMeterProvider(metric.NewMeterProvider()), retry.WithTracerProvider(trace.NewTracerProvider()),
			retry.WithLogger(slog.New(slog.DiscardHandler))).call(t.Context())
		wantCalls(t, s, 3)
		exhausted(t, err, retry.ReasonMaxAttempts)
		oneKey(t, s)
		if time.Since(start) != 300*time.Millisecond {
			t.Errorf("it took %v", time.Since(start))
		}
	})
}
