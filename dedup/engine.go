package dedup

import (
	"context"
	"errors"
	"time"
)

// Engine executes operations once. It is safe for concurrent use. One Engine
// should serve all operations of a process on one store: callers of the same
// operation then wait for each other in memory.
type Engine struct {
	store Store
	settings
}

// NewEngine returns an engine on store, which stays the caller's to close,
// after the engine.
func NewEngine(store Store, opts ...Option) (*Engine, error) {
	s, err := newSettings(opts)
	if store == nil {
		err = errors.Join(errors.New("dedup: NewEngine: store is nil"), err)
	}
	if err != nil {
		return nil, err
	}
	return &Engine{store: store, settings: s}, nil
}

// Close stops what the engine still does in the background and waits for it.
// It always returns nil.
func (e *Engine) Close() error { return nil }

// Do executes op once.
func (e *Engine) Do(ctx context.Context, op Operation, fn func(context.Context) (Outcome, error)) (Result, error) {
	op, err := op.complete(&e.settings)
	if err != nil {
		return Result{}, err
	}
	answer, err := e.store.Claim(ctx, ClaimRequest{Key: op.Key, Fingerprint: op.Fingerprint, Lease: op.Lease, Retention: op.Retention})
	if err != nil {
		return Result{}, &StoreError{Op: "claim", cause: err}
	}
	if answer.State != Claimed {
		return Result{}, &InProgressError{RetryAfter: time.Second}
	}
	out, err := fn(ctx)
	return Result{Outcome: out}, err
}

// Do executes op once on store.
func Do(ctx context.Context, store Store, op Operation, fn func(context.Context) (Outcome, error), opts ...Option) (Result, error) {
	e, err := NewEngine(store, opts...)
	if err != nil {
		return Result{}, err
	}
	return e.Do(ctx, op, fn)
}
