package dedup_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
)

// hooked is a memory store whose calls can be counted and made to fail. A hook
// gets the call that would be made.
type hooked struct {
	*dedup.Memory
	claims, completes, renews, releases atomic.Int64

	onClaim    func(ctx context.Context, req dedup.ClaimRequest, next func() (dedup.Answer, error)) (dedup.Answer, error)
	onComplete func(ctx context.Context, c dedup.Completion, next func() error) error
	onRenew    func(ctx context.Context, next func() error) error
	onRelease  func(ctx context.Context, next func() error) error
}

func newHooked() *hooked { return &hooked{Memory: dedup.NewMemory()} }

func (s *hooked) Claim(ctx context.Context, req dedup.ClaimRequest) (dedup.Answer, error) {
	s.claims.Add(1)
	next := func() (dedup.Answer, error) {
		answer, err := s.Memory.Claim(ctx, req)
		if answer.Claim != nil {
			answer.Claim = &hookedClaim{Claim: answer.Claim, store: s}
		}
		return answer, err
	}
	if s.onClaim != nil {
		return s.onClaim(ctx, req, next)
	}
	return next()
}

type hookedClaim struct {
	dedup.Claim
	store *hooked
}

func (c *hookedClaim) Complete(ctx context.Context, done dedup.Completion) error {
	c.store.completes.Add(1)
	next := func() error { return c.Claim.Complete(ctx, done) }
	if c.store.onComplete != nil {
		return c.store.onComplete(ctx, done, next)
	}
	return next()
}

func (c *hookedClaim) Renew(ctx context.Context, lease time.Duration) error {
	c.store.renews.Add(1)
	next := func() error { return c.Claim.Renew(ctx, lease) }
	if c.store.onRenew != nil {
		return c.store.onRenew(ctx, next)
	}
	return next()
}

func (c *hookedClaim) Release(ctx context.Context) error {
	c.store.releases.Add(1)
	next := func() error { return c.Claim.Release(ctx) }
	if c.store.onRelease != nil {
		return c.store.onRelease(ctx, next)
	}
	return next()
}

// mute is a store that cannot wake those who wait.
type mute struct{ store *hooked }

func (m mute) Claim(ctx context.Context, req dedup.ClaimRequest) (dedup.Answer, error) {
	return m.store.Claim(ctx, req)
}

func (m mute) Promise() dedup.Promise { return m.store.Promise() }

// transactional is a store in memory whose claims are transactions: what a
// handler writes with write lasts if its outcome is recorded. An operation that
// is claimed in the context of another joins it.
type transactional struct {
	mu      sync.Mutex
	open    map[dedup.Key]bool
	records map[dedup.Key]recorded
	effects []string

	completeErr   error
	afterComplete error // where the transaction went through all the same
}

type recorded struct {
	record      []byte
	fingerprint dedup.Fingerprint
}

var errOver = errors.New("the transaction is over")

func newTransactional() *transactional {
	return &transactional{open: map[dedup.Key]bool{}, records: map[dedup.Key]recorded{}}
}

func (s *transactional) Promise() dedup.Promise { return dedup.ExactlyOnce }

func (s *transactional) Claim(ctx context.Context, req dedup.ClaimRequest) (dedup.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	outer, _ := ctx.Value(txKey{}).(*tx)
	if r, ok := s.find(outer, req.Key); ok && r.fingerprint != req.Fingerprint {
		return dedup.Answer{State: dedup.Reused, Fingerprint: r.fingerprint}, nil
	} else if ok {
		return dedup.Answer{State: dedup.Completed, Record: r.record}, nil
	}
	if s.open[req.Key] {
		return dedup.Answer{State: dedup.InProgress}, nil
	}
	s.open[req.Key] = true
	return dedup.Answer{State: dedup.Claimed, Claim: &tx{store: s, outer: outer, req: req, records: map[dedup.Key]recorded{}}}, nil
}

func (s *transactional) find(t *tx, key dedup.Key) (recorded, bool) {
	for ; t != nil; t = t.outer {
		if record, ok := t.records[key]; ok {
			return record, true
		}
	}
	record, ok := s.records[key]
	return record, ok
}

// written returns what is durable.
func (s *transactional) written() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.effects
}

type txKey struct{}

type tx struct {
	store   *transactional
	outer   *tx
	req     dedup.ClaimRequest
	records map[dedup.Key]recorded
	effects []string
	over    bool
}

// write is what a handler does.
func write(ctx context.Context, effect string) {
	t := ctx.Value(txKey{}).(*tx)
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	t.effects = append(t.effects, effect)
}

func (t *tx) Fence() uint64 { return 1 }
func (t *tx) Attempt() int  { return 1 }

func (t *tx) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, txKey{}, t)
}

func (t *tx) Renew(context.Context, time.Duration) error { return nil }

func (t *tx) Complete(ctx context.Context, c dedup.Completion) error {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	if err := t.end(ctx); err != nil {
		return err
	}
	if t.store.completeErr != nil {
		return t.store.completeErr
	}
	if c.Undo {
		t.effects, t.records = nil, map[dedup.Key]recorded{}
	}
	t.records[t.req.Key] = recorded{c.Record, t.req.Fingerprint}
	records, effects := t.store.records, &t.store.effects
	if t.outer != nil {
		records, effects = t.outer.records, &t.outer.effects
	}
	for key, record := range t.records {
		records[key] = record
	}
	*effects = append(*effects, t.effects...)
	return t.store.afterComplete
}

func (t *tx) Release(ctx context.Context) error {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	return t.end(ctx)
}

func (t *tx) end(ctx context.Context) error {
	if t.over {
		return errOver
	}
	t.over = true
	delete(t.store.open, t.req.Key)
	return ctx.Err()
}
