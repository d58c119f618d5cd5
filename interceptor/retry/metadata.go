package retry

import (
	"context"

	"google.golang.org/grpc/metadata"

	"github.com/retrysafe/retrysafe/interceptor/internal/wire"
)

// equipped returns the context of a call's attempts: with the key and the owner
// that they carry, each where it is not empty. An owner and a count of attempts
// that the caller's metadata has already belong to another hop, such as a
// handler's incoming metadata passed on: they are dropped.
func equipped(ctx context.Context, key, owner string) context.Context {
	if owner == "" {
		return metadata.AppendToOutgoingContext(ctx, wire.KeyHeader, key)
	}
	ctx = withoutHop(ctx)
	if key == "" {
		return metadata.AppendToOutgoingContext(ctx, wire.OwnerHeader, owner)
	}
	return metadata.AppendToOutgoingContext(ctx, wire.KeyHeader, key, wire.OwnerHeader, owner)
}

// equipped is the function of that name for a call that may carry neither.
func (o *order) equipped(ctx context.Context) context.Context {
	if !o.addKey && o.owner == "" {
		return ctx
	}
	return equipped(ctx, keyToAdd(o.key, o.addKey), o.owner)
}

// keyToAdd returns the key where the metadata does not have it yet.
func keyToAdd(key string, add bool) string {
	if add {
		return key
	}
	return ""
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
