package replicatest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
)

// replica is an engine with a store of its own, in this process.
type replica struct {
	*dedup.Engine
	tb      testing.TB
	storage storage
	name    string
	spy     *spy
}

// replica starts one that ends with the test.
func (s storage) replica(tb testing.TB, name string, opts ...dedup.Option) *replica {
	tb.Helper()
	return s.replicaOn(tb, name, s.store(tb), opts...)
}

// store opens a store that is closed with the test.
func (s storage) store(tb testing.TB) dedup.Store {
	tb.Helper()
	store, closeStore, err := s.open(bounded(tb))
	must(tb, err)
	tb.Cleanup(func() { must(tb, closeStore()) })
	return store
}

func (s storage) replicaOn(tb testing.TB, name string, store dedup.Store, opts ...dedup.Option) *replica {
	tb.Helper()
	r := &replica{tb: tb, storage: s, name: name, spy: &spy{Store: store}}
	engine, err := dedup.NewEngine(r.spy.withAbilities(), append([]dedup.Option{dedup.WithWait(patience)}, opts...)...)
	must(tb, err)
	tb.Cleanup(func() { must(tb, engine.Close()) })
	r.Engine = engine
	return r
}

// answered is how a replica has answered, and what it was like where its handler
// ran.
type answered struct {
	dedup.Result
	err     error
	took    time.Duration
	began   time.Time
	attempt int
	fence   uint64
}

func (a answered) executed() bool { return !a.began.IsZero() }

// do asks the replica, whose handler takes effect, does what during says, and
// answers with the replica's name.
func (r *replica) do(op dedup.Operation, during ...func(context.Context)) (a answered) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	asked := time.Now()
	a.Result, a.err = r.Do(ctx, op, func(ctx context.Context) (dedup.Outcome, error) {
		a.began = time.Now()
		if ex, ok := dedup.ExecutionFromContext(ctx); ok {
			a.attempt, a.fence = ex.Attempt(), ex.Fence()
		}
		if err := r.storage.effect(ctx, op, r.name); err != nil {
			return dedup.Outcome{}, err
		}
		for _, f := range during {
			f(ctx)
		}
		return dedup.Outcome{Message: r.name}, nil
	})
	a.took = time.Since(asked)
	return a
}

// background is do in a goroutine.
func (r *replica) background(op dedup.Operation, during ...func(context.Context)) <-chan answered {
	result := make(chan answered, 1)
	go func() { result <- r.do(op, during...) }()
	return result
}

func (r *replica) wantExecuted(a answered) {
	r.tb.Helper()
	if a.err != nil || a.Replayed || a.Unrecorded || a.Outcome.Message != r.name || !a.executed() {
		r.tb.Errorf("%s: %+v, %v; want that it executed", r.name, a.Result, a.err)
	}
}

func (r *replica) wantReplayed(a answered, from string) {
	r.tb.Helper()
	if a.err != nil || !a.Replayed || a.Outcome.Message != from || a.executed() {
		r.tb.Errorf("%s: %+v, %v; want the outcome of %s", r.name, a.Result, a.err, from)
	}
}

// spy counts the calls of a store as they begin.
type spy struct {
	dedup.Store
	claims, waits atomic.Int64
}

func (s *spy) Claim(ctx context.Context, req dedup.ClaimRequest) (dedup.Answer, error) {
	s.claims.Add(1)
	return s.Store.Claim(ctx, req)
}

// withAbilities is the spy with what its store can do.
func (s *spy) withAbilities() dedup.Store {
	if w, ok := s.Store.(dedup.Waiter); ok {
		return &wakingSpy{s, w}
	}
	return s
}

type wakingSpy struct {
	*spy
	waiter dedup.Waiter
}

func (s *wakingSpy) Wait(ctx context.Context, key dedup.Key) error {
	s.waits.Add(1)
	return s.waiter.Wait(ctx, key)
}
