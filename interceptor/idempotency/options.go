package idempotency

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/interceptor/internal/method"
)

// ServerOption configures the server interceptor.
type ServerOption interface{ applyToServer(*serverConfig) }

// ClientOption configures the client interceptor.
type ClientOption interface{ applyToClient(*clientConfig) }

// Option is for both sides.
type Option interface {
	ServerOption
	ClientOption
}

type serverConfig struct {
	keys    keyTable
	scope   func(context.Context) (string, error)
	engine  []dedup.Option
	headers []string
	logger  *slog.Logger
	meters  metric.MeterProvider
	tracers trace.TracerProvider
}

type clientConfig struct {
	keys keyTable
}

// keyTable is what code says of methods, with the mistakes in it.
type keyTable struct {
	method.Table[Requirement]
	errs []error
}

type serverOption func(*serverConfig)

func (o serverOption) applyToServer(c *serverConfig) { o(c) }

// WithScope sets the function that names the caller's scope.
func WithScope(scope func(context.Context) (string, error)) ServerOption {
	return serverOption(func(c *serverConfig) { c.scope = scope })
}

// WithRetention sets how long an outcome is remembered.
func WithRetention(d time.Duration) ServerOption { return engineOption(dedup.WithRetention(d)) }

// WithLease sets how long a claim lives without being renewed.
func WithLease(d time.Duration) ServerOption { return engineOption(dedup.WithLease(d)) }

// WithMaxExecution bounds one execution of a handler.
func WithMaxExecution(d time.Duration) ServerOption { return engineOption(dedup.WithMaxExecution(d)) }

// WithWait bounds how long a call waits for another.
func WithWait(d time.Duration) ServerOption { return engineOption(dedup.WithWait(d)) }

func engineOption(o dedup.Option) ServerOption {
	return serverOption(func(c *serverConfig) { c.engine = append(c.engine, o) })
}

// WithReplayHeaders names the headers and trailers that are kept.
func WithReplayHeaders(names ...string) ServerOption {
	return serverOption(func(c *serverConfig) { c.headers = append(c.headers, names...) })
}

// WithLogger sets where the server side logs.
func WithLogger(l *slog.Logger) ServerOption {
	return serverOption(func(c *serverConfig) { c.logger = l })
}

// WithMeterProvider sets where the server side's metrics go.
func WithMeterProvider(p metric.MeterProvider) ServerOption {
	return serverOption(func(c *serverConfig) { c.meters = p })
}

// WithTracerProvider sets where the server side's spans go.
func WithTracerProvider(p trace.TracerProvider) ServerOption {
	return serverOption(func(c *serverConfig) { c.tracers = p })
}

type keyOption struct {
	pattern     string
	requirement Requirement
}

func (o keyOption) applyToServer(c *serverConfig) { c.keys.add(o) }
func (o keyOption) applyToClient(c *clientConfig) { c.keys.add(o) }

func (t *keyTable) add(o keyOption) {
	if err := t.Set(o.pattern, o.requirement); err != nil {
		t.errs = append(t.errs, err)
	}
}

// WithMethodKey says whether calls of the methods that pattern selects carry
// a key.
func WithMethodKey(pattern string, r Requirement) Option { return keyOption{pattern, r} }
