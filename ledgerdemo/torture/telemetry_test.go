package torture

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/logging"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/timeout"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"

	"github.com/retrysafe/retrysafe/interceptor/retry"
)

// limitAttempt bounds what stands behind it.
func limitAttempt(d time.Duration) grpc.UnaryClientInterceptor {
	return timeout.UnaryClientInterceptor(d)
}

func TestEachAttemptIsASpanOfItsOwn(t *testing.T) {
	recorded := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorded))
	traced := otelgrpc.WithTracerProvider(provider)
	n := newNeighbourhood(t, grpc.StatsHandler(otelgrpc.NewServerHandler(traced)))
	dial, err := retry.DialOptions(retry.WithTracerProvider(provider), retry.WithPolicy(retry.Policy{
		MaxAttempts: 1000, Backoff: retry.Backoff{Base: time.Millisecond, Cap: 10 * time.Millisecond},
	}), retry.WithoutBudget())
	if err != nil {
		t.Fatal(err)
	}
	var attempted lines
	conn := n.plain(t, append(dial, grpc.WithStatsHandler(otelgrpc.NewClientHandler(traced)), grpc.WithChainUnaryInterceptor(
		logging.UnaryClientInterceptor(&attempted, logging.WithLogOnEvents(logging.StartCall)),
		limitAttempt(100*time.Millisecond)))...)
	if a := n.debitSlowly(t, conn, &attempted); a.err != nil {
		t.Fatal(a.err)
	}
	spans := recorded.Ended()
	var attempts int
	for _, s := range spans {
		if s.SpanKind() == trace.SpanKindClient && s.InstrumentationScope().Name == otelgrpc.ScopeName {
			attempts++
		}
		for _, shown := range []string{fmt.Sprint(s.Attributes()), fmt.Sprint(s.Events()), s.Name(), s.Status().Description} {
			if strings.Contains(shown, "the-key") || strings.Contains(shown, "alice") {
				t.Errorf("a span shows %s", shown)
			}
		}
	}
	if attempts < 3 {
		t.Errorf("%d spans of attempts, of %d spans", attempts, len(spans))
	}
}
