package retry

import (
	"context"

	"google.golang.org/grpc"
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
	o, err := c.order(ctx, method, req, opts)
	if err != nil {
		return err
	}
	if o.single {
		return c.once(ctx, &o, req, reply, cc, invoker, opts)
	}
	x := c.calls.Get().(*call)
	x.order, x.req, x.reply, x.cc, x.invoker = o, req, reply, cc, invoker
	x.opts = append(appendForeign(x.opts[:0], opts), x.trailerOption, ownedOption{})
	x.target = c.targets.of(cc)
	return x.run(ctx)
}
