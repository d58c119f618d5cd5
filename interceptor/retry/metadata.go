package retry

import (
	"context"

	"google.golang.org/grpc/metadata"

	"github.com/retrysafe/retrysafe/interceptor/internal/wire"
)

// equipped returns the context of a call's attempts: with the key and the owner
// that they carry. An owner and a count of attempts that the
// caller's metadata has already belong to another hop, such as a handler's
// incoming metadata passed on: they are dropped.
func (o *order) equipped(ctx context.Context) context.Context {
	if o.owner == "" {
		if !o.addKey {
			return ctx
		}
		return metadata.AppendToOutgoingContext(ctx, wire.KeyHeader, o.key)
	}
	ctx = withoutHop(ctx)
	if !o.addKey {
		return metadata.AppendToOutgoingContext(ctx, wire.OwnerHeader, o.owner)
	}
	return metadata.AppendToOutgoingContext(ctx, wire.KeyHeader, o.key, wire.OwnerHeader, o.owner)
}

// withoutHop drops the metadata of this package's that belongs to one hop.
func withoutHop(ctx context.Context) context.Context {
	if metadata.ValueFromOutgoingContext(ctx, wire.OwnerHeader) == nil &&
		metadata.ValueFromOutgoingContext(ctx, wire.AttemptsHeader) == nil {
		return ctx
	}
	md, _ := metadata.FromOutgoingContext(ctx)
	delete(md, wire.OwnerHeader)
	delete(md, wire.AttemptsHeader)
	return metadata.NewOutgoingContext(ctx, md)
}
