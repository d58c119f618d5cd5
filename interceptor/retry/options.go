package retry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"

	"github.com/retrysafe/retrysafe/interceptor/internal/nils"
)

// Option configures an interceptor. Mistakes in options are found when
// the interceptor is made: all of them are reported at once, each with the
// name of its option. Of two options that set the same thing the last wins.
type Option func(*config)

// config is what options have said so far.
type config struct {
	policies       []entry[Policy]
	safeties       []entry[Safety]
	serviceConfig  *string
	budget         *Budget
	noBudget       bool
	owner          string
	failover       []grpc.ClientConnInterface
	hasFailover    bool
	sharedStore    bool
	logger         *slog.Logger
	meterProvider  metric.MeterProvider
	tracerProvider trace.TracerProvider
	onRetry        func(context.Context, Retry)
	onExhausted    func(context.Context, *ExhaustedError)
	rejectForeign  bool // a server's
	errs           []error
}

// entry is a pattern and what is said of the methods that it selects.
type entry[T any] struct {
	option, pattern string
	value           T
}

// apply lets each option say its part.
func (c *config) apply(opts []Option) {
	for i, o := range opts {
		if o == nil {
			c.wrong("option %d is nil", i)
			continue
		}
		o(c)
	}
}

// failed returns every mistake in one error, or nil.
func (c *config) failed() error {
	if len(c.errs) == 0 {
		return nil
	}
	return fmt.Errorf("retry: %w", errors.Join(c.errs...))
}

func (c *config) wrong(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf(format, args...))
}

// wrongEach reports each of errs under one heading.
func (c *config) wrongEach(errs []error, format string, args ...any) {
	heading := fmt.Sprintf(format, args...)
	for _, err := range errs {
		c.wrong("%s: %w", heading, err)
	}
}

// WithPolicy sets the policy of every method that no other option says more
// of. It takes precedence over the policies in .proto files.
func WithPolicy(p Policy) Option {
	p = p.clone()
	return func(c *config) {
		c.policies = append(c.policies, entry[Policy]{"WithPolicy", "*", p})
	}
}

// WithMethodPolicy sets the policy of the methods that pattern selects:
// "/package.Service/Method", "/package.Service/*" or "*". The most specific
// pattern wins, whether it comes from here or from [WithServiceConfig]; of two
// equal ones the one from here does.
func WithMethodPolicy(pattern string, p Policy) Option {
	p = p.clone()
	return func(c *config) {
		c.policies = append(c.policies, entry[Policy]{"WithMethodPolicy", pattern, p})
	}
}

// WithMethodSafety states the safety class of the methods that pattern
// selects: "/package.Service/Method", "/package.Service/*" or "*". The most
// specific pattern wins. It takes precedence over what .proto files say.
func WithMethodSafety(pattern string, s Safety) Option {
	return func(c *config) {
		c.safeties = append(c.safeties, entry[Safety]{"WithMethodSafety", pattern, s})
	}
}

// WithServiceConfig takes the retryPolicy, timeout and retryThrottling of a
// gRPC service config in JSON, as gRFC A6 has them. Other parts of it are
// gRPC's own and are ignored here; hand it to grpc.WithDefaultServiceConfig
// for those.
//
//   - A retryPolicy says how, never whether: state the methods' [Safety] too.
//   - maxAttempts counts as written, where grpc-go stops at 5.
//   - Waits are drawn with [JitterFull], where gRFC A6 since 2024 takes 0.8 to
//     1.2 of the ceiling.
//   - A method whose most specific entry has no retryPolicy is not retried, as
//     in gRPC.
//   - timeout bounds the whole call, as in gRPC, and every class of call.
//   - [WithBudget] and [WithoutBudget] win over retryThrottling.
func WithServiceConfig(json string) Option {
	return func(c *config) { c.serviceConfig = &json }
}

// WithBudget sets the token budget of each target. The zero Budget is the
// default one.
func WithBudget(b Budget) Option {
	return func(c *config) { c.budget, c.noBudget = &b, false }
}

// WithoutBudget removes the token budget: then nothing but each call's own
// policy holds retries back while a target is down.
func WithoutBudget() Option {
	return func(c *config) { c.budget, c.noBudget = nil, true }
}

// WithOwner sets the name under which the interceptor owns retries: the value
// of the retry-owner metadata. Default: "retrysafe". 1 to 128 visible ASCII
// bytes.
func WithOwner(name string) Option {
	return func(c *config) {
		c.owner = name
		if err := checkOwner(name); err != nil {
			c.wrong("WithOwner: %w", err)
		}
	}
}

// WithFailover names further targets, in order. A call that is exhausted at
// one is tried at the next, at once, with a fresh attempt count, the same key
// and the same deadline; so a call makes at most MaxAttempts attempts at each.
// A call that the server asked not to retry goes nowhere else.
//
// Only Safe calls move on, and Keyed ones only under [WithSharedStore]: at a
// target with another store the key is new, and the call would execute again.
//
// The connections stay the caller's to close. Their own interceptors apply to
// what is sent there, those of the first connection do not; give them the
// dial options of [DialOptions] too, so that grpc-go's own retries are off.
func WithFailover(conns ...grpc.ClientConnInterface) Option {
	return func(c *config) {
		c.failover, c.hasFailover = conns, true
		if len(conns) == 0 {
			c.wrong("WithFailover: no connection is given")
		}
		for i, conn := range conns {
			if nils.Is(conn) {
				c.wrong("WithFailover: connection %d is nil", i)
			}
		}
	}
}

// WithSharedStore states that the servers at all targets of [WithFailover]
// deduplicate in one store, so that Keyed calls may move on too.
func WithSharedStore() Option {
	return func(c *config) { c.sharedStore = true }
}

// WithLogger logs each attempt at Debug, and how a call ended: at Warn where
// it is exhausted, otherwise at Debug. No key, no request and no response is
// logged. Default: no log.
func WithLogger(l *slog.Logger) Option {
	return func(c *config) {
		c.logger = l
		if l == nil {
			c.wrong("WithLogger: the logger is nil")
		}
	}
}

// WithMeterProvider records the metrics that the package's documentation
// lists. Default: none.
func WithMeterProvider(p metric.MeterProvider) Option {
	return func(c *config) {
		if nils.Is(p) {
			c.wrong("WithMeterProvider: the provider is nil")
			return
		}
		c.meterProvider = p
	}
}

// WithTracerProvider makes a span for each Safe or Keyed call, with an event
// for each of its attempts. Default: none.
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(c *config) {
		if nils.Is(p) {
			c.wrong("WithTracerProvider: the provider is nil")
			return
		}
		c.tracerProvider = p
	}
}

// WithOnRetry calls f before each retry, in the caller's goroutine and before
// the wait.
func WithOnRetry(f func(ctx context.Context, r Retry)) Option {
	return func(c *config) {
		c.onRetry = f
		if f == nil {
			c.wrong("WithOnRetry: the function is nil")
		}
	}
}

// WithOnExhausted calls f with every [ExhaustedError] before it is returned,
// in the caller's goroutine. Its Reason says whether retries ran out or were
// never allowed.
func WithOnExhausted(f func(ctx context.Context, ex *ExhaustedError)) Option {
	return func(c *config) {
		c.onExhausted = f
		if f == nil {
			c.wrong("WithOnExhausted: the function is nil")
		}
	}
}
