package idempotency_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/interceptor/idempotency"
)

func TestEveryMistakeIsReportedAtOnce(t *testing.T) {
	_, err := idempotency.UnaryServerInterceptor(nil,
		idempotency.WithScope(nil),
		idempotency.WithRetention(-time.Second),
		idempotency.WithLease(-2*time.Second),
		idempotency.WithMaxExecution(-3*time.Second),
		idempotency.WithWait(-4*time.Second),
		idempotency.WithMaxWaiters(-5),
		idempotency.WithMaxOutcome(-6),
		idempotency.WithStoreTimeout(-7*time.Second),
		idempotency.WithMeterProvider((*metric.MeterProvider)(nil)),
		idempotency.WithTracerProvider((*sdktrace.TracerProvider)(nil)),
		idempotency.WithMethodKey("ledger.v1/Debit", idempotency.KeyRequired),
		idempotency.WithMethodKey("/idempotency.test.v1.Orders/Plaice", idempotency.KeyRequired),
		idempotency.WithMethodKey(place, 0),
		idempotency.WithMethodKey(offer, 9),
		idempotency.WithReplayHeaders("Authorization", "set-cookie", "grpc-status", ":path", "Idempotency-Key", "retry-owner", "Content-Type", "sp ace", "", "ok"),
	)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"store is nil", "WithScope", "WithRetention: -1s", "WithLease: -2s", "WithMaxExecution: -3s", "WithWait: -4s",
		"WithMeterProvider: the provider is a nil *metric.MeterProvider", "WithTracerProvider: the provider is a nil *trace.TracerProvider",
		"WithMaxWaiters: -5", "WithMaxOutcome: -6", "WithStoreTimeout: -7s",
		`WithMethodKey: pattern "ledger.v1/Debit"`, `WithMethodKey: pattern "/idempotency.test.v1.Orders/Plaice"`,
		`pattern "` + place + `": requirement_0`, `pattern "` + offer + `": requirement_9`,
		`"Authorization" is a credential`, `"set-cookie" is a credential`, `"grpc-status" belongs to gRPC`, `":path" belongs to gRPC`,
		`"Idempotency-Key" belongs to this suite`, `"retry-owner" belongs to this suite`, `"Content-Type" belongs to gRPC`, `"sp ace" is not a metadata name`, `"" is not a metadata name`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q", want)
		}
	}
	if strings.Contains(err.Error(), `"ok"`) {
		t.Error("a good name is reported")
	}
	if t.Failed() {
		t.Log(err)
	}
}

func TestAClientReportsItsMistakesToo(t *testing.T) {
	_, err := idempotency.UnaryClientInterceptor(idempotency.WithMethodKey("/a", idempotency.KeyNone), idempotency.WithMethodKey("*", 7))
	if err == nil || !strings.Contains(err.Error(), `"/a"`) || !strings.Contains(err.Error(), "requirement_7") {
		t.Errorf("got %v", err)
	}
}

func TestZeroAndNilMeanTheDefault(t *testing.T) {
	s, err := idempotency.NewServer(dedup.NewMemory(), nil, idempotency.WithRetention(0), idempotency.WithLease(0), idempotency.WithMaxExecution(0),
		idempotency.WithWait(0), idempotency.WithMaxWaiters(0), idempotency.WithMaxOutcome(0), idempotency.WithStoreTimeout(0),
		idempotency.WithLogger(nil), idempotency.WithMeterProvider(nil), idempotency.WithTracerProvider(nil), idempotency.WithReplayHeaders())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestRequirementsHaveNames(t *testing.T) {
	want := "requirement_0 none optional required requirement_4"
	if got := fmt.Sprint(idempotency.Requirement(0), idempotency.KeyNone, idempotency.KeyOptional, idempotency.KeyRequired, idempotency.Requirement(4)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
