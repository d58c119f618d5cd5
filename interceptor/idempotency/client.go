package idempotency

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/retrysafe/retrysafe/interceptor/internal/key"
	"github.com/retrysafe/retrysafe/interceptor/internal/wire"
)

// UnaryClientInterceptor returns an interceptor that gives calls their
// idempotency key: a key without retries, for clients that retry by other
// means, or not at all but sit behind a proxy that does.
//
// The caller's key goes first: from [WithKey], from outgoing metadata, or from
// the request field that the method's policy names as key_field. Without one, a
// call of a keyed method (by [WithMethodKey], or else the .proto) gets a new
// key, and any other call goes out untouched. A key that is malformed, comes
// twice or differs between these places fails with INVALID_ARGUMENT, and nothing
// is sent.
//
// The error reports every option that is wrong, and every policy in the linked
// .proto files that is.
func UnaryClientInterceptor(opts ...ClientOption) (grpc.UnaryClientInterceptor, error) {
	var c clientConfig
	for _, o := range opts {
		if o != nil {
			o.applyToClient(&c)
		}
	}
	ps, err := newPolicies(&c.keys)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, fullMethod string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, callOpts ...grpc.CallOption) error {
		ctx, err := ps.withKey(ctx, fullMethod, req)
		if err != nil {
			return err
		}
		return invoke(ctx, fullMethod, req, reply, cc, callOpts...)
	}, nil
}

// withKey returns the context that the call is made with. The error is a
// status.
func (ps *policies) withKey(ctx context.Context, fullMethod string, req any) (context.Context, error) {
	p, err := ps.of(fullMethod)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	k, inMetadata, ok, err := key.OutgoingCall(ctx, req, p.keyField)
	if err != nil {
		return nil, wire.Error(wire.ReasonKeyInvalid, err.Error())
	}
	if inMetadata || !ok && !p.keyed() {
		return ctx, nil
	}
	if !ok {
		k = key.New()
	}
	return metadata.AppendToOutgoingContext(ctx, wire.KeyHeader, k), nil
}
