package retry

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
)

// scopeName names the instruments' and spans' scope.
const scopeName = "github.com/retrysafe/retrysafe/interceptor/retry"

// latencyBounds are the buckets that gRFC A66 gives to latencies.
var latencyBounds = []float64{
	0, 0.00001, 0.00005, 0.0001, 0.0003, 0.0006, 0.0008, 0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 0.008,
	0.01, 0.013, 0.016, 0.02, 0.025, 0.03, 0.04, 0.05, 0.065, 0.08, 0.1, 0.13, 0.16, 0.2, 0.25, 0.3, 0.4, 0.5, 0.65, 0.8,
	1, 2, 5, 10, 20, 50, 100,
}

// telemetry holds the instruments of an interceptor. A nil telemetry records
// nothing.
type telemetry struct {
	tracer trace.Tracer // nil: no spans

	retries    metric.Int64Histogram
	retryDelay metric.Float64Histogram
	given      metric.Int64Counter
	tokens     metric.Float64Gauge
}

func (c *config) newTelemetry() *telemetry {
	if c.meterProvider == nil && c.tracerProvider == nil {
		return nil
	}
	t := new(telemetry)
	if c.tracerProvider != nil {
		t.tracer = c.tracerProvider.Tracer(scopeName)
	}
	var meter metric.Meter = noop.Meter{}
	if c.meterProvider != nil {
		meter = c.meterProvider.Meter(scopeName)
	}
	t.makeInstruments(meter, func(err error) {
		if err != nil {
			c.wrong("WithMeterProvider: %w", err)
		}
	})
	return t
}

// makeInstruments makes the instruments of gRFC A96, with its names, units and
// buckets, and our own.
func (t *telemetry) makeInstruments(m metric.Meter, check func(error)) {
	var err error
	t.retries, err = m.Int64Histogram("grpc.client.call.retries", metric.WithUnit("{retry}"),
		metric.WithDescription("Number of retries during the client call. If there were no retries, 0 is not reported."),
		metric.WithExplicitBucketBoundaries(1, 2, 3, 4, 5))
	check(err)
	t.retryDelay, err = m.Float64Histogram("grpc.client.call.retry_delay", metric.WithUnit("s"),
		metric.WithDescription("Total time of delay while there is no active attempt during the client call. If there was none, 0 is not reported."),
		metric.WithExplicitBucketBoundaries(latencyBounds...))
	check(err)
	t.given, err = m.Int64Counter("retrysafe.client.call.exhausted", metric.WithUnit("{call}"),
		metric.WithDescription("Calls that failed in a way that could be retried, and were not retried further, by reason."))
	check(err)
	t.tokens, err = m.Float64Gauge("retrysafe.client.budget.tokens", metric.WithUnit("{token}"),
		metric.WithDescription("Tokens in the retry budget of a target. Retries stop at half of its size."))
	check(err)
}

// level records the tokens that a target has left.
func (t *telemetry) level(ctx context.Context, to *target) {
	if t == nil || to.bucket == nil {
		return
	}
	t.tokens.Record(ctx, to.bucket.level(), metric.WithAttributes(attribute.String("grpc.target", to.name)))
}

// exhausted counts a call that was given up.
func (t *telemetry) exhausted(ctx context.Context, method string, to *target, ex *ExhaustedError) {
	if t == nil {
		return
	}
	t.given.Add(ctx, 1, metric.WithAttributes(
		attribute.String("grpc.method", method), attribute.String("grpc.target", to.name),
		attribute.String("grpc.status", codeName(codeOf(ex))), attribute.String("retrysafe.reason", ex.Reason.String())))
}

// ended records the retries of a call, if there were any.
func (t *telemetry) ended(ctx context.Context, x *call) {
	if t == nil || x.attempts < 2 {
		return
	}
	attributes := metric.WithAttributes(attribute.String("grpc.method", x.client.label(x.order.method)), attribute.String("grpc.target", x.target.name))
	t.retries.Record(ctx, int64(x.attempts-1), attributes)
	if x.waited > 0 {
		t.retryDelay.Record(ctx, x.waited.Seconds(), attributes)
	}
}

// label is the method as gRFC A66 has it: without the leading slash, and
// "other" where this program does not have it, so that a proxy's clients
// cannot make up labels.
func (c *client) label(method string) string {
	if !c.planner.plan(method).known {
		return "other"
	}
	return strings.TrimPrefix(method, "/")
}

// observer follows one call for the log, the metrics and the span. The zero
// observer looks away.
type observer struct {
	on     bool
	span   trace.Span // nil: none
	before verdict    // what led to the present attempt
}

func (w *observer) start(x *call) {
	w.on = true
	t := x.client.telemetry
	if t == nil || t.tracer == nil {
		return
	}
	x.base, w.span = t.tracer.Start(x.base, "retry "+x.client.label(x.order.method), trace.WithAttributes(
		attribute.String("rpc.method", x.client.label(x.order.method)), attribute.String("retrysafe.safety", x.order.safety.String())))
}

// retrying remembers what precedes the next attempt.
func (w *observer) retrying(v verdict) { w.before = v }

// attempted reports an attempt that ended with err.
func (w *observer) attempted(x *call, err error, took time.Duration) {
	if !w.on {
		return
	}
	x.client.log.attempt(x.caller, x, codeOf(err), took, w.before)
	if w.span == nil || !w.span.IsRecording() {
		return
	}
	w.span.AddEvent("attempt", trace.WithAttributes(
		attribute.Int("retrysafe.attempt", x.attempts),
		attribute.String("grpc.target", x.target.name),
		attribute.String("grpc.status", codeName(codeOf(err))),
		attribute.Float64("retrysafe.took", took.Seconds()),
		attribute.Float64("retrysafe.wait", w.before.wait.Seconds()),
		attribute.Float64("retrysafe.ceiling", w.before.ceiling.Seconds()),
		attribute.Bool("retrysafe.pushback", w.before.pushback)))
}

// end reports how the call ended. An exhausted one has been reported already,
// but for its span.
func (w *observer) end(x *call, err error) {
	if !w.on {
		return
	}
	x.client.telemetry.ended(x.caller, x)
	ex, exhausted := err.(*ExhaustedError)
	if !exhausted {
		x.client.log.ended(x.caller, x.order.method, x.target.name, x.attempts, codeOf(err))
	}
	if w.span == nil {
		return
	}
	if exhausted {
		w.span.SetAttributes(attribute.String("retrysafe.reason", ex.Reason.String()))
	}
	if err != nil {
		w.span.SetStatus(codes.Error, codeName(codeOf(err)))
	}
	w.span.SetAttributes(attribute.Int("retrysafe.attempts", x.attempts))
	w.span.End()
}
