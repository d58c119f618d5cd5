package idempotency

import (
	"context"

	"google.golang.org/grpc"
)

// UnaryClientInterceptor returns a client interceptor that adds a key.
func UnaryClientInterceptor(opts ...ClientOption) (grpc.UnaryClientInterceptor, error) {
	var c clientConfig
	for _, o := range opts {
		o.applyToClient(&c)
	}
	return func(ctx context.Context, fullMethod string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, callOpts ...grpc.CallOption) error {
		return invoke(ctx, fullMethod, req, reply, cc, callOpts...)
	}, nil
}
