package idempotency

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/interceptor/internal/method"
	"github.com/retrysafe/retrysafe/interceptor/internal/nils"
)

// ServerOption configures the server side.
type ServerOption interface{ applyToServer(*serverConfig) }

// ClientOption configures the client side.
type ClientOption interface{ applyToClient(*clientConfig) }

// Option configures either side.
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
	errs    []error
}

// isProvider reports the nil pointer of a variable that nobody has set. A plain
// nil means none.
func (c *serverConfig) isProvider(option string, p any) bool {
	if p == nil || !nils.Is(p) {
		return true
	}
	c.errs = append(c.errs, fmt.Errorf("idempotency: %s: the provider is a nil %T", option, p))
	return false
}

type clientConfig struct {
	keys keyTable
}

type serverOption func(*serverConfig)

func (o serverOption) applyToServer(c *serverConfig) { o(c) }

// WithScope sets the function that names the scope of a call: the tenant or
// account within which keys are unique. It is called with the context of each
// call that has a key. It should take the scope from what the server knows of
// its caller, such as the subject of a verified token, never from metadata that
// the caller is free to write.
//
// Where it fails, the call fails with the error's status, and nothing is
// claimed. An error without a status is INTERNAL for the caller, and what it
// says goes to the logger of [WithLogger].
//
// Without this option all callers share one scope. Then a caller who knows or
// guesses another's key and request is given that one's response: good enough
// only where all callers trust each other.
func WithScope(scope func(ctx context.Context) (string, error)) ServerOption {
	return serverOption(func(c *serverConfig) {
		if scope == nil {
			c.errs = append(c.errs, errors.New("idempotency: WithScope: the function is nil"))
		}
		c.scope = scope
	})
}

// WithRetention sets how long an outcome is remembered, for methods whose
// policy in the .proto does not say. Default, and what zero means: 24 h. After
// it a repeat executes, so it should be longer than any client may retry.
func WithRetention(d time.Duration) ServerOption { return engineOption(dedup.WithRetention(d)) }

// WithLease sets how long a claim lives without being renewed: how long an
// operation stays blocked after the server that executed it died. Default, and
// what zero means: 30 s. A transactional store has no leases.
func WithLease(d time.Duration) ServerOption { return engineOption(dedup.WithLease(d)) }

// WithMaxExecution bounds one execution of a handler, for methods whose policy
// in the .proto does not say. Default, and what zero means: 30 s.
func WithMaxExecution(d time.Duration) ServerOption { return engineOption(dedup.WithMaxExecution(d)) }

// WithWait bounds how long a repeat waits while the first attempt runs; its
// own deadline bounds it too. Default, and what zero means: 10 s.
func WithWait(d time.Duration) ServerOption { return engineOption(dedup.WithWait(d)) }

// WithMaxWaiters bounds how many repeats wait at once, over all operations.
// Those beyond are told that the operation is in progress. Default, and what
// zero means: 10,000.
func WithMaxWaiters(n int) ServerOption { return engineOption(dedup.WithMaxWaiters(n)) }

// WithMaxOutcome bounds a recorded outcome, in bytes. Default, and what zero
// means: 4 MiB.
func WithMaxOutcome(bytes int) ServerOption { return engineOption(dedup.WithMaxOutcome(bytes)) }

// WithStoreTimeout bounds each write to the store that does not belong to the
// caller's time. Default, and what zero means: 5 s.
func WithStoreTimeout(d time.Duration) ServerOption { return engineOption(dedup.WithStoreTimeout(d)) }

func engineOption(o dedup.Option) ServerOption {
	return serverOption(func(c *serverConfig) { c.engine = append(c.engine, o) })
}

// WithReplayHeaders names the response headers and trailers that are recorded
// with an outcome and sent again with a replay. Default: none. Names are
// compared without case; those that end in "-bin" may have any bytes.
//
// Credentials (authorization, proxy-authorization, cookie, set-cookie) and
// names that belong to gRPC or to this suite are refused.
func WithReplayHeaders(names ...string) ServerOption {
	return serverOption(func(c *serverConfig) { c.headers = append(c.headers, names...) })
}

// WithLogger sets where the server side logs what an operator should know and
// no caller is told, such as why the store cannot be reached. Default, and what
// nil means: nowhere. No key, scope, request or response is logged, unless an
// error of the store or of the function of [WithScope] holds one.
func WithLogger(l *slog.Logger) ServerOption {
	return serverOption(func(c *serverConfig) { c.logger = l })
}

// WithMeterProvider sets where the metrics retrysafe.server.* go. Default, and
// what nil means: nowhere.
//
//	retrysafe.server.operations          {operation}  calls with a key, by grpc.method and retrysafe.result
//	retrysafe.server.operation.duration  s            the same; with the wait and the execution
//	retrysafe.server.store.duration      s            calls of the store, by retrysafe.store.call and error.type
//	retrysafe.server.claims              {claim}      executions under way, by grpc.method
//	retrysafe.server.unrecorded          {operation}  effects whose outcome was not recorded in time, by grpc.method
//
// A result is one of executed, replayed, waited, reused, in_progress, unknown,
// cancelled, failed, key_required and key_invalid.
func WithMeterProvider(p metric.MeterProvider) ServerOption {
	return serverOption(func(c *serverConfig) {
		if c.isProvider("WithMeterProvider", p) {
			c.meters = p
		}
	})
}

// WithTracerProvider sets where the spans go: one named retrysafe.operation
// around each call with a key, with the attribute retrysafe.result. Default,
// and what nil means: nowhere.
func WithTracerProvider(p trace.TracerProvider) ServerOption {
	return serverOption(func(c *serverConfig) {
		if c.isProvider("WithTracerProvider", p) {
			c.tracers = p
		}
	})
}

// WithMethodKey says whether calls of the methods that pattern selects carry
// a key, against what the .proto says. A pattern is "/package.Service/Method",
// "/package.Service/*" or "*"; the most specific one wins. On the client, methods
// that are KeyOptional or KeyRequired get a key.
//
// A wide pattern selects every unary method within it, also those that others
// call without a key: with "*", KeyRequired refuses health checks. A pattern that
// names a streaming method, and asks for a key there, is an error.
func WithMethodKey(pattern string, r Requirement) Option { return keyOption{pattern, r} }

type keyOption struct {
	pattern     string
	requirement Requirement
}

func (o keyOption) applyToServer(c *serverConfig) { c.keys.add(o) }
func (o keyOption) applyToClient(c *clientConfig) { c.keys.add(o) }

// keyTable is what code says of methods, with the mistakes in it.
type keyTable struct {
	method.Table[Requirement]
	errs []error
}

func (t *keyTable) add(o keyOption) {
	if o.requirement < KeyNone || o.requirement > KeyRequired {
		t.errs = append(t.errs, fmt.Errorf("idempotency: WithMethodKey: pattern %q: %v is no requirement", o.pattern, o.requirement))
	}
	if err := t.Set(o.pattern, o.requirement); err != nil {
		t.errs = append(t.errs, fmt.Errorf("idempotency: WithMethodKey: %w", err))
	}
	if d, ok := method.Describe(o.pattern); ok && o.requirement > KeyNone && streams(d.Method) {
		t.errs = append(t.errs, fmt.Errorf("idempotency: WithMethodKey: pattern %q: %w", o.pattern, errStreams))
	}
}
