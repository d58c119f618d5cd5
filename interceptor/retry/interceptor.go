package retry

import (
	"context"

	"google.golang.org/grpc"

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
// made, and makes it.
func (c *client) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	p, said := c.planner.plan(method), readOptions(opts)
	k, inMetadata, hasKey, err := callersKey(ctx, req, p.keyField)
	if err != nil {
		return wire.Error(wire.ReasonKeyInvalid, err.Error())
	}
	o := order{method: method, safety: p.safety, rules: p.rules, key: k, addKey: hasKey && !inMetadata}
	w := wiring{req: req, reply: reply, cc: cc, invoker: invoker}
	if _, owned := ownerOf(ctx); owned || !p.plain || said != (callSettings{}) {
		return c.custom(ctx, p, &o, said, &w, opts)
	}
	if o.safety == SafetyUnsafe {
		o.reason = ReasonNotRetrySafe
		return c.once(ctx, &o, &w, opts)
	}
	c.equip(&o)
	return c.plain(ctx, &o, &w, opts)
}
