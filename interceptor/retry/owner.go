package retry

import (
	"context"
	"fmt"
)

const (
	// DefaultOwner is the name of the interceptor as an owner of retries.
	DefaultOwner = "retrysafe"

	maxOwner = 128
)

type ownerKey struct{}

// Own states that the caller retries calls made with the returned context
// itself: each of them makes one attempt, and carries name in the retry-owner
// metadata. Set the operation's key with idempotency.WithKey before the loop,
// so that all rounds of it carry the same one.
//
// The name is 1 to 128 visible ASCII bytes; with another one the calls fail
// with INVALID_ARGUMENT before anything is sent.
func Own(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, ownerKey{}, &name)
}

// ownerOf returns the name that [Own] put into ctx.
func ownerOf(ctx context.Context) (name string, ok bool) {
	p, ok := ctx.Value(ownerKey{}).(*string)
	if !ok {
		return "", false
	}
	return *p, true
}

func checkOwner(name string) error {
	if name == "" {
		return fmt.Errorf("the name is empty")
	}
	if len(name) > maxOwner {
		return fmt.Errorf("the name has %d bytes, more than %d", len(name), maxOwner)
	}
	for i := range len(name) {
		if c := name[i]; c < 0x21 || c > 0x7e {
			return fmt.Errorf("byte %d of the name is not visible ASCII", i)
		}
	}
	return nil
}
