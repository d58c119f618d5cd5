package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/retrysafe/retrysafe/dedup"
)

func newEngine(t *testing.T, s *Store, opts ...dedup.Option) *dedup.Engine {
	t.Helper()
	e, err := dedup.NewEngine(s, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func operation(id string) dedup.Operation {
	return dedup.Operation{Key: keyOf(id), Fingerprint: fingerprint}
}

// What the engine makes of what a handler answers.
func TestEngineSettles(t *testing.T) {
	boom := errors.New("boom")
	ok := dedup.Outcome{Response: dedup.Payload{Type: "t", Value: []byte("v")}}
	refused := dedup.Outcome{Code: codes.FailedPrecondition, Message: "no funds"}
	for _, tc := range []struct {
		name     string
		out      dedup.Outcome
		err      error
		effects  []string
		replayed bool
	}{
		{"an OK", ok, nil, []string{"m"}, true},
		{"a business error", refused, nil, nil, true},
		{"no effect", dedup.Outcome{Code: codes.Unavailable}, nil, nil, false},
		{"an uncertain answer", dedup.Outcome{Code: codes.Internal}, nil, nil, false},
		{"an error", dedup.Outcome{}, boom, nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := open(t)
			e := newEngine(t, s)
			handle := func(ctx context.Context) (dedup.Outcome, error) {
				return tc.out, errors.Join(write(ctx, "m"), tc.err)
			}
			for i := range 2 {
				res, err := e.Do(bounded(t), operation("a"), handle)
				if !errors.Is(err, tc.err) || res.Outcome.Code != tc.out.Code {
					t.Errorf("attempt %d: %v, %v", i+1, res, err)
				}
				if replayed := i == 1 && tc.replayed; res.Replayed != replayed {
					t.Errorf("attempt %d: replayed %v, want %v", i+1, res.Replayed, replayed)
				}
				wantEffects(t, s, tc.effects...)
			}
		})
	}
}

func TestEnginePanic(t *testing.T) {
	s := open(t)
	e := newEngine(t, s)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is gone")
			}
		}()
		_, _ = e.Do(bounded(t), operation("a"), func(ctx context.Context) (dedup.Outcome, error) {
			_ = write(ctx, "m")
			panic("boom")
		})
	}()
	wantEffects(t, s)
	wantState(t, s, "a", dedup.Claimed)
}

// A handler that executes another operation, and one that executes itself.
func TestEngineNested(t *testing.T) {
	s := open(t)
	e := newEngine(t, s)
	_, err := e.Do(bounded(t), operation("outer"), func(ctx context.Context) (dedup.Outcome, error) {
		_, err := e.Do(ctx, operation("outer"), nil)
		if !errors.Is(err, dedup.ErrNested) {
			return dedup.Outcome{}, fmt.Errorf("itself: %w", err)
		}
		for range 2 {
			_, err = e.Do(ctx, operation("inner"), func(ctx context.Context) (dedup.Outcome, error) {
				return dedup.Outcome{}, write(ctx, "inner")
			})
			if err != nil {
				return dedup.Outcome{}, err
			}
		}
		return dedup.Outcome{}, write(ctx, "outer")
	})
	if err != nil {
		t.Fatal(err)
	}
	wantEffects(t, s, "inner", "outer")
	wantState(t, s, "inner", dedup.Completed)
}

// Two replicas on one file under a storm of duplicates: each operation has
// one execution, and all get its outcome.
func TestEnginesOverOneFile(t *testing.T) {
	path := databasePath(t)
	engines := []*dedup.Engine{newEngine(t, openAt(t, path)), newEngine(t, openAt(t, path))}
	const keys, callers = 10, 40
	var executed atomic.Int32
	errs := make(chan error, callers)
	for c := range callers {
		go func() {
			var err error
			for k := range keys {
				id := fmt.Sprintf("operation %d", k)
				var res dedup.Result
				res, err = engines[c%2].Do(bounded(t), operation(id), func(ctx context.Context) (dedup.Outcome, error) {
					executed.Add(1)
					return dedup.Outcome{Message: id}, write(ctx, id)
				})
				if err == nil && res.Outcome.Message != id {
					err = errors.New("the outcome of another")
				}
				if err != nil {
					break
				}
			}
			errs <- err
		}()
	}
	for range callers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if n := executed.Load(); n != keys {
		t.Errorf("%d executions, want %d", n, keys)
	}
}

// A handler over its time is interrupted in its statement; nothing of it
// remains, and the retry executes.
func TestEngineTimeLimit(t *testing.T) {
	s := open(t)
	e := newEngine(t, s, dedup.WithMaxExecution(20*time.Millisecond))
	_, err := e.Do(bounded(t), operation("a"), func(ctx context.Context) (dedup.Outcome, error) {
		if err := write(ctx, "m"); err != nil {
			return dedup.Outcome{}, err
		}
		return dedup.Outcome{}, run(ctx, endless)
	})
	wantError(t, "Do", err, context.DeadlineExceeded)
	wantEffects(t, s)
	wantState(t, s, "a", dedup.Claimed)
}

// Nobody is told of success where the store was closed under the handler.
func TestEngineOfAClosedStore(t *testing.T) {
	s := open(t)
	e := newEngine(t, s)
	_, err := e.Do(bounded(t), operation("a"), func(ctx context.Context) (dedup.Outcome, error) {
		return dedup.Outcome{}, errors.Join(write(ctx, "m"), s.Close())
	})
	wantError(t, "Do", err, dedup.ErrStoreUnavailable)
	_, err = e.Do(bounded(t), operation("a"), nil)
	wantError(t, "Do", err, dedup.ErrStoreUnavailable)
}
