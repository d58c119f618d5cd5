package dedup

import (
	"context"
	"errors"
	"sync/atomic"
)

// cachingClaim is a claim whose outcome goes into the cache as well.
type cachingClaim struct {
	Claim
	cache       *cache
	key         Key
	fingerprint Fingerprint
	// joined says that the claim may be part of another's transaction, so that
	// its completion lasts only if that one commits.
	joined bool
	// tried says that a completion was sent of which it is not known that it
	// recorded nothing. What a later one is answered may be about that one.
	tried atomic.Bool
}

// Complete implements [Claim].
func (c *cachingClaim) Complete(ctx context.Context, done Completion) error {
	first := !c.tried.Swap(true)
	sent := c.cache.now()
	err := c.Claim.Complete(ctx, done)
	switch {
	case !first:
	case err == nil && !c.joined:
		c.cache.put(c.key, c.fingerprint, done, sent)
	case errors.Is(err, ErrFull), errors.Is(err, ErrTooLarge):
		c.tried.Store(false)
	}
	return err
}

// Context implements [Claim]. It marks what is asked for with it.
func (c *cachingClaim) Context(ctx context.Context) context.Context {
	ctx = c.Claim.Context(ctx)
	if !c.cache.transactional || inTransaction(ctx) {
		return ctx
	}
	return context.WithValue(ctx, cachedTransaction{}, true)
}

// cachedTransaction is the context key of the mark.
type cachedTransaction struct{}

// inTransaction says whether ctx may carry a transaction: that of an execution,
// or of a claim that was made through a cache.
func inTransaction(ctx context.Context) bool {
	if _, ok := ExecutionFromContext(ctx); ok {
		return true
	}
	return ctx.Value(cachedTransaction{}) != nil
}
