package idempotency

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"

	"github.com/retrysafe/retrysafe/dedup"
)

const (
	scopeName = "github.com/retrysafe/retrysafe/interceptor/idempotency"

	methodKey    = attribute.Key("grpc.method")
	resultKey    = attribute.Key("retrysafe.result")
	storeCallKey = attribute.Key("retrysafe.store.call")
	errorTypeKey = attribute.Key("error.type")

	resultKeyRequired = "key_required"
	resultKeyInvalid  = "key_invalid"
)

// latencies are the bounds of gRFC A66's histograms, in seconds.
var latencies = metric.WithExplicitBucketBoundaries(
	0, 0.00001, 0.00005, 0.0001, 0.0003, 0.0006, 0.0008, 0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 0.008, 0.01, 0.013,
	0.016, 0.02, 0.025, 0.03, 0.04, 0.05, 0.065, 0.08, 0.1, 0.13, 0.16, 0.2, 0.25, 0.3, 0.4, 0.5, 0.65, 0.8, 1, 2, 5, 10,
	20, 50, 100)

// telemetry measures. A nil telemetry does nothing.
type telemetry struct {
	tracer     trace.Tracer // nil: no spans
	operations metric.Int64Counter
	duration   metric.Float64Histogram
	store      metric.Float64Histogram
	claims     metric.Int64UpDownCounter
	unrecorded metric.Int64Counter
	sets       sync.Map // labels to metric.MeasurementOption
}

// labels are what a measurement is told apart by. They come from the methods
// of the server and closed sets, so they are few.
type labels struct {
	method, result, call string
	failed               bool
}

func newTelemetry(meters metric.MeterProvider, tracers trace.TracerProvider) (*telemetry, error) {
	if meters == nil && tracers == nil {
		return nil, nil
	}
	if meters == nil {
		meters = metricnoop.NewMeterProvider()
	}
	m := meters.Meter(scopeName)
	t := new(telemetry)
	if tracers != nil {
		t.tracer = tracers.Tracer(scopeName)
	}
	var errs [5]error
	t.operations, errs[0] = m.Int64Counter("retrysafe.server.operations", metric.WithUnit("{operation}"),
		metric.WithDescription("Calls with an idempotency key, and calls refused for want of a good one."))
	t.duration, errs[1] = m.Float64Histogram("retrysafe.server.operation.duration", metric.WithUnit("s"), latencies,
		metric.WithDescription("Time to answer a call with an idempotency key, with the wait and the execution."))
	t.store, errs[2] = m.Float64Histogram("retrysafe.server.store.duration", metric.WithUnit("s"), latencies,
		metric.WithDescription("Time of a call of the store of outcomes."))
	t.claims, errs[3] = m.Int64UpDownCounter("retrysafe.server.claims", metric.WithUnit("{claim}"),
		metric.WithDescription("Executions under way."))
	t.unrecorded, errs[4] = m.Int64Counter("retrysafe.server.unrecorded", metric.WithUnit("{operation}"),
		metric.WithDescription("Executions that took effect and whose outcome was not recorded when their caller was answered."))
	return t, errors.Join(errs[:]...)
}

func (t *telemetry) observer() dedup.Observer {
	if t == nil {
		return dedup.Observer{}
	}
	return dedup.Observer{Operation: t.operation, StoreCall: t.storeCall, Held: t.held, Unrecorded: t.lost}
}

func (t *telemetry) operation(ctx context.Context, method string, d dedup.Disposition, elapsed time.Duration) {
	result := d.String()
	if t.tracer != nil {
		trace.SpanFromContext(ctx).SetAttributes(resultKey.String(result))
	}
	set := t.set(labels{method: method, result: result})
	t.operations.Add(ctx, 1, set)
	t.duration.Record(ctx, elapsed.Seconds(), set)
}

func (t *telemetry) storeCall(ctx context.Context, method string, c dedup.StoreCall, elapsed time.Duration, err error) {
	t.store.Record(ctx, elapsed.Seconds(), t.set(labels{method: method, call: c.String(), failed: err != nil}))
}

func (t *telemetry) held(ctx context.Context, method string, delta int) {
	t.claims.Add(ctx, int64(delta), t.set(labels{method: method}))
}

func (t *telemetry) lost(ctx context.Context, method string) {
	t.unrecorded.Add(ctx, 1, t.set(labels{method: method}))
}

// refused counts a call that never came to the engine.
func (t *telemetry) refused(ctx context.Context, method, result string) {
	if t != nil {
		t.operations.Add(ctx, 1, t.set(labels{method: method, result: result}))
	}
}

// span starts the span of an operation and returns what ends it.
func (t *telemetry) span(ctx context.Context, method string) (context.Context, func()) {
	if t == nil || t.tracer == nil {
		return ctx, func() {}
	}
	ctx, span := t.tracer.Start(ctx, "retrysafe.operation", trace.WithAttributes(methodKey.String(trimSlash(method))))
	return ctx, func() { span.End() }
}

// set returns the attributes for labels, made once.
func (t *telemetry) set(l labels) metric.MeasurementOption {
	if o, ok := t.sets.Load(l); ok {
		return o.(metric.MeasurementOption)
	}
	kvs := []attribute.KeyValue{methodKey.String(trimSlash(l.method))}
	if l.result != "" {
		kvs = append(kvs, resultKey.String(l.result))
	}
	if l.call != "" {
		kvs = append(kvs, storeCallKey.String(l.call))
	}
	if l.failed {
		kvs = append(kvs, errorTypeKey.String("_OTHER"))
	}
	o, _ := t.sets.LoadOrStore(l, metric.WithAttributeSet(attribute.NewSet(kvs...)))
	return o.(metric.MeasurementOption)
}

// trimSlash makes of a full method what gRFC A66 calls one.
func trimSlash(fullMethod string) string { return strings.TrimPrefix(fullMethod, "/") }
