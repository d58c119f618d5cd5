package retry

import (
	"context"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/retrysafe/retrysafe/interceptor/internal/key"
)

// callersKey returns the key that the caller chose: from idempotency.WithKey,
// from the outgoing metadata, or from the field of the request that the
// method's policy names as key_field. The error wraps [key.ErrInvalid].
func callersKey(ctx context.Context, req any, field protoreflect.Name) (k string, inMetadata, ok bool, err error) {
	k, inMetadata, ok, err = key.Outgoing(ctx)
	if err != nil || field == "" {
		return k, inMetadata, ok, err
	}
	inField, hasField, err := key.InField(req, field)
	if err != nil {
		return "", false, false, err
	}
	k, ok, err = key.Agreed(k, ok, inField, hasField)
	return k, inMetadata, ok, err
}
