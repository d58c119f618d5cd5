package idempotency

import (
	"context"

	"github.com/retrysafe/retrysafe/interceptor/internal/key"
	"github.com/retrysafe/retrysafe/interceptor/internal/wire"
)

// MetadataKey is the name of the request metadata that carries the idempotency
// key: exactly one value of 1 to 255 visible ASCII bytes, the same on every
// attempt of one operation.
const MetadataKey = wire.KeyHeader

// WithKey returns a context whose calls carry the caller's own idempotency
// key, such as an order number: then a repeat that another process makes is a
// repeat too. A key of 1 to 255 visible ASCII bytes is valid; a call with any
// other fails before it is sent.
//
// The key names an operation together with the method, so that one context
// serves calls of different methods. Two different requests to one method need
// two keys.
func WithKey(ctx context.Context, k string) context.Context {
	return key.WithOutgoing(ctx, k)
}

// KeyFromContext returns the key that [WithKey] put into ctx or, in a handler
// behind the server interceptor, the key of the operation that it executes.
// It returns false where there is neither. The key of an incoming operation is
// not sent with calls that the handler makes.
func KeyFromContext(ctx context.Context) (string, bool) {
	if k, ok := key.Chosen(ctx); ok {
		return k, true
	}
	return key.Incoming(ctx)
}

// NewKey returns a new key: a UUIDv7 as text (RFC 9562), which starts with the
// time, so that stores append new keys rather than scatter them. It may be
// called by many goroutines at once.
func NewKey() string { return key.New() }
