package key

import (
	"context"
	"fmt"
	"io"

	"google.golang.org/grpc/metadata"

	"github.com/retrysafe/retrysafe/interceptor/internal/wire"
)

type (
	outgoingKey struct{}
	incomingKey struct{}
)

// chosen is a key that does not show itself: a context that is printed, as in a
// log, shows the strings that it holds.
type chosen struct{ key string }

// WithOutgoing returns a context whose calls carry key.
func WithOutgoing(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, outgoingKey{}, &chosen{key})
}

// Outgoing returns the key that the caller chose for the call about to be made
// with ctx: from [WithOutgoing] or from the outgoing metadata. inMetadata says
// that the metadata already has it. The error wraps [ErrInvalid] where the key
// is malformed, comes twice, or differs between the two places.
func Outgoing(ctx context.Context) (key string, inMetadata, ok bool, err error) {
	chosen, ok := Chosen(ctx)
	if ok {
		if err := Validate(chosen); err != nil {
			return "", false, false, err
		}
	}
	inMD, found, err := one(metadata.ValueFromOutgoingContext(ctx, wire.KeyHeader))
	if err != nil {
		return "", false, false, err
	}
	if !found {
		return chosen, false, ok, nil
	}
	if ok && inMD != chosen {
		return "", false, false, fmt.Errorf("%w: context and metadata hold different ones", ErrInvalid)
	}
	return inMD, true, true, nil
}

// IncomingContext is the context of a handler that executes the operation
// named by a key. Calls made with it do not carry the key. It is a type, so that
// it can be a part of what its maker allocates anyway. However it is printed or
// encoded, it does not show the key.
type IncomingContext struct {
	context.Context
	key string
}

// NewIncomingContext returns one that has no Context yet.
func NewIncomingContext(key string) IncomingContext { return IncomingContext{key: key} }

// Format implements [fmt.Formatter].
func (c *IncomingContext) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "key.IncomingContext")
}

// Value implements [context.Context].
func (c *IncomingContext) Value(k any) any {
	if k == (incomingKey{}) {
		return c
	}
	return c.Context.Value(k)
}

// WithIncoming returns an [IncomingContext].
func WithIncoming(ctx context.Context, key string) context.Context {
	return &IncomingContext{Context: ctx, key: key}
}

// Incoming returns the key of the operation that a handler executes.
func Incoming(ctx context.Context) (string, bool) {
	in, ok := ctx.Value(incomingKey{}).(*IncomingContext)
	if !ok {
		return "", false
	}
	return in.key, true
}

// Chosen returns the key that [WithOutgoing] put into ctx.
func Chosen(ctx context.Context) (string, bool) {
	c, ok := ctx.Value(outgoingKey{}).(*chosen)
	if !ok {
		return "", false
	}
	return c.key, true
}

// FromIncomingMetadata returns the key that an incoming call carries. The
// error wraps [ErrInvalid].
func FromIncomingMetadata(ctx context.Context) (key string, ok bool, err error) {
	return one(metadata.ValueFromIncomingContext(ctx, wire.KeyHeader))
}

func one(values []string) (key string, ok bool, err error) {
	switch len(values) {
	case 0:
		return "", false, nil
	case 1:
		if err := Validate(values[0]); err != nil {
			return "", false, err
		}
		return values[0], true, nil
	}
	return "", false, fmt.Errorf("%w: the call carries %d of them", ErrInvalid, len(values))
}
