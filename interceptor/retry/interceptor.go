package retry

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/retrysafe/retrysafe/interceptor/internal/key"
	"github.com/retrysafe/retrysafe/interceptor/internal/wire"
)

// UnaryClientInterceptor returns an interceptor that retries calls as the
// package's documentation says. It is safe for concurrent use and may serve
// many connections. Prefer [DialOptions], which also turns grpc-go's own
// configured retries off.
//
// The error reports every mistake in opts, and in the retry policies of the
// .proto files in this program.
func UnaryClientInterceptor(opts ...Option) (grpc.UnaryClientInterceptor, error) {
	c, err := newClient(opts)
	if err != nil {
		return nil, err
	}
	return c.intercept, nil
}

// DialOptions returns what makes the interceptor of [UnaryClientInterceptor]
// the one owner of a connection's retries: the interceptor, and grpc-go's own
// configured retries off. Its transparent retries, of calls that no server
// has seen, stay on.
//
//	retries, err := retry.DialOptions(retry.WithPolicy(p))
//	conn, err := grpc.NewClient(target, append(retries, creds)...)
//
// Interceptors that come after it in the connection's chain see every attempt,
// and must not use its call options after they have returned; those before it
// see one call.
func DialOptions(opts ...Option) ([]grpc.DialOption, error) {
	interceptor, err := UnaryClientInterceptor(opts...)
	if err != nil {
		return nil, err
	}
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(interceptor), grpc.WithDisableRetry()}, nil
}

// intercept translates between gRPC and the loop: it decides how the call is
// made, and makes it. Most calls have nothing special about them; those take
// the short way through plain or pass, where nothing is gathered that only a
// failure needs.
func (c *client) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	p, said := c.planner.plan(method), readOptions(opts)
	k, inMetadata, hasKey, err := key.OutgoingCall(ctx, req, p.keyField)
	if err != nil {
		return wire.Error(wire.ReasonKeyInvalid, err.Error())
	}
	addKey := hasKey && !inMetadata
	if _, owned := ownerOf(ctx); owned || !p.plain || said != (callSettings{}) {
		o := p.order(method, k, addKey)
		return c.custom(ctx, p, &o, said, &wiring{req, reply, cc, invoker}, opts)
	}
	if p.safety == SafetyUnsafe {
		return c.pass(ctx, p, method, k, addKey, req, reply, cc, invoker, opts)
	}
	return c.plain(ctx, p, method, k, addKey, req, reply, cc, invoker, opts)
}

// pass makes the one attempt of an Unsafe call.
func (c *client) pass(ctx context.Context, p *plan, method, k string, addKey bool, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts []grpc.CallOption) error {
	if addKey {
		ctx = equipped(ctx, k, "")
	}
	err := invoker(ctx, method, req, reply, cc, opts...)
	t := c.targets.of(cc)
	if err == nil {
		c.succeeded(ctx, t)
		return nil
	}
	o := p.order(method, k, addKey)
	o.reason = ReasonNotRetrySafe
	return c.failedOnce(ctx, &o, t, err)
}

// plain makes the first attempt of a Safe or Keyed call that nothing but the
// caller bounds and nobody observes, and those that follow it.
func (c *client) plain(ctx context.Context, p *plan, method, k string, addKey bool, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts []grpc.CallOption) error {
	x := c.pooled(opts)
	base := ctx
	owner := ""
	if p.safety == SafetyKeyed {
		owner = c.owner
		if k == "" {
			k, addKey = x.keys.New(), true
		}
	}
	if addKey || owner != "" {
		base = equipped(ctx, keyToAdd(k, addKey), owner)
	}
	var start time.Time
	if _, bounded := ctx.Deadline(); bounded {
		start = time.Now()
	}
	err := invoker(base, method, req, reply, cc, x.sentOptions()...)
	t := c.targets.of(cc)
	if err == nil {
		c.succeeded(ctx, t)
		x.recycle()
		return nil
	}
	x.order, x.wiring, x.target = p.order(method, k, addKey), wiring{req, reply, cc, invoker}, t
	x.order.owner = owner
	x.caller, x.base, x.limit = ctx, base, limitOf(ctx, 0)
	x.attempts, x.here = 1, 1
	if x.limit.exists() {
		x.shortest = time.Since(start)
	}
	return x.follow(err)
}
