package dedup

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Cache is a [Store] in front of another. It keeps the outcomes that were
// recorded through it, for a while, and answers repeats of those operations
// without asking that store. Everything else it passes on. It is a [Waiter]
// where the other store is one, promises what that one does, and is safe for
// concurrent use. Make one with [NewCache].
//
// It never changes an answer. It answers from memory only what the store would
// still say:
//
//   - Of an outcome that was recorded elsewhere nobody knows how long the store
//     still keeps it, so that only what was completed through the Cache itself
//     is kept. Its retention counts from before the completion was sent.
//   - A completion counts where the store has said that it is durable. What is
//     completed inside of another's transaction, or by a claim that had met an
//     unclear error before, is not kept. A claim is to be completed through one
//     [Claim] value, as an [Engine] does.
//   - A repeat with another fingerprint is answered Reused, as the store would.
//
// What is done to the storage behind the store's back is not seen: an outcome
// that was deleted by hand, or that the storage has lost, is answered for as
// long as [WithCacheTime] says.
//
// It is worth its memory where repeats come to the process that executed: one
// replica, or a balancer that hashes by key. It holds responses in memory.
type Cache interface {
	Store
	// Stats says how the Cache does.
	Stats() CacheStats

	// storage is the store behind it.
	storage() Store
}

// CacheStats is what a [Cache] has done since it was made, and what it holds.
type CacheStats struct {
	// Hits are the claims that were answered from memory, Misses those that
	// went to the store.
	Hits, Misses uint64
	// Keys is how many outcomes are held, Bytes what their keys and records
	// take.
	Keys  int
	Bytes int64
}

// NewCache returns a cache in front of store, which stays the caller's to
// close. The error reports every option that is wrong. The cache has no
// goroutine, and nothing to be closed.
func NewCache(store Store, opts ...CacheOption) (Cache, error) {
	s, err := newCacheSettings(opts)
	if isNil(store) {
		err = errors.Join(errors.New("dedup: NewCache: store is nil"), err)
	}
	if err != nil {
		return nil, err
	}
	c := &cache{
		settings:      s,
		store:         store,
		transactional: store.Promise() == ExactlyOnce,
		now:           clocksSince(time.Now()),
		entries:       make(map[Key]*list.Element),
	}
	if w, ok := store.(Waiter); ok {
		return &wakingCache{c, w}, nil
	}
	return c, nil
}

// cache is a [Cache] in front of a store that wakes nobody.
type cache struct {
	settings      cacheSettings
	store         Store
	transactional bool
	now           func() clocks

	hits, misses atomic.Uint64

	mu      sync.Mutex
	entries map[Key]*list.Element // of *cached
	recent  list.List             // the same, the latest used first
	bytes   int64
}

// wakingCache is a [Cache] in front of a store that wakes those who wait.
type wakingCache struct {
	*cache
	Waiter
}

var (
	_ Cache  = (*cache)(nil)
	_ Cache  = (*wakingCache)(nil)
	_ Waiter = (*wakingCache)(nil)
)

// Promise implements [Store].
func (c *cache) Promise() Promise { return c.store.Promise() }

// Claim implements [Store].
func (c *cache) Claim(ctx context.Context, req ClaimRequest) (Answer, error) {
	if answer, ok := c.find(ctx, &req); ok {
		c.hits.Add(1)
		return answer, nil
	}
	c.misses.Add(1)
	answer, err := c.store.Claim(ctx, req)
	if answer.Claim != nil {
		answer.Claim = &cachingClaim{
			Claim:       answer.Claim,
			cache:       c,
			key:         req.Key,
			fingerprint: req.Fingerprint,
			joined:      c.transactional && inTransaction(ctx),
		}
	}
	return answer, err
}

// find answers from memory. A request that the store has reason to refuse is
// left to it.
func (c *cache) find(ctx context.Context, req *ClaimRequest) (Answer, bool) {
	if ctx.Err() != nil || req.Lease < time.Millisecond || req.Retention < time.Millisecond {
		return Answer{}, false
	}
	e := c.get(req.Key)
	switch {
	case e == nil:
		return Answer{}, false
	case e.fingerprint != req.Fingerprint:
		return Answer{State: Reused, Fingerprint: e.fingerprint}, true
	}
	return Answer{State: Completed, Record: e.record}, true
}

// Stats implements [Cache].
func (c *cache) Stats() CacheStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return CacheStats{Hits: c.hits.Load(), Misses: c.misses.Load(), Keys: len(c.entries), Bytes: c.bytes}
}

func (c *cache) storage() Store { return c.store }

// storageOf returns the store behind all caches.
func storageOf(store Store) Store {
	for {
		c, ok := store.(Cache)
		if !ok {
			return store
		}
		store = c.storage()
	}
}
