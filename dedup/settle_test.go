package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/retrysafe/retrysafe/dedup"
)

var errDown = errors.New("the store is down")

func done(context.Context) (dedup.Outcome, error) { return dedup.Outcome{Message: "done"}, nil }

func TestAnOutcomeThatCannotBeRecordedIsAnsweredAndTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newHooked()
		back := time.Now().Add(10 * time.Second)
		store.onComplete = func(_ context.Context, _ dedup.Completion, next func() error) error {
			if time.Now().Before(back) {
				return errDown
			}
			return next()
		}
		e := newEngine(t, store)
		begin := time.Now()
		res, err := e.Do(t.Context(), debit("k"), done)
		if err != nil || !res.Unrecorded || res.Outcome.Message != "done" || time.Since(begin) > 0 {
			t.Errorf("%+v, %v after %v", res, err, time.Since(begin))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := e.Do(ctx, debit("k"), breaks); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while it is not recorded: %v", err)
		}
		time.Sleep(12 * time.Second)
		if res, err := e.Do(t.Context(), debit("k"), breaks); err != nil || !res.Replayed || res.Outcome.Message != "done" {
			t.Errorf("once the store is back: %+v, %v", res, err)
		}
		if n := store.releases.Load(); n != 0 {
			t.Errorf("released %d times", n)
		}
		if n := store.completes.Load(); n > 20 {
			t.Errorf("tried %d times", n)
		}
	})
}

func TestRecordingIsTriedNoLongerThanTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newHooked()
		store.onComplete = func(context.Context, dedup.Completion, func() error) error { return errDown }
		e := newEngine(t, store)
		if res, err := e.Do(t.Context(), debit("k"), done); err != nil || !res.Unrecorded {
			t.Errorf("%+v, %v", res, err)
		}
		time.Sleep(dedup.DefaultLease)
		synctest.Wait()
		n := store.completes.Load()
		time.Sleep(time.Hour)
		if later := store.completes.Load(); later != n || store.renews.Load() != 0 {
			t.Errorf("tried %d times in the lease, %d in all, renewed %d times", n, later, store.renews.Load())
		}
		op := debit("k")
		op.OnUnknown = dedup.Reject
		if _, err := e.Do(t.Context(), op, breaks); !errors.Is(err, dedup.ErrOutcomeUnknown) {
			t.Errorf("then: %v", err)
		}
	})
}

func TestCloseTriesOnceMoreAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newHooked()
		down := true
		store.onComplete = func(_ context.Context, _ dedup.Completion, next func() error) error {
			if down {
				return errDown
			}
			return next()
		}
		e := newEngine(t, store)
		if res, err := e.Do(t.Context(), debit("k"), done); err != nil || !res.Unrecorded {
			t.Errorf("%+v, %v", res, err)
		}
		synctest.Wait()
		down = false
		for range 2 {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
		if res, err := e.Do(t.Context(), debit("k"), breaks); err != nil || !res.Replayed {
			t.Errorf("after Close: %+v, %v", res, err)
		}
	})
}

func TestCloseDoesNotWaitForAStoreToComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newHooked()
		store.onComplete = func(context.Context, dedup.Completion, func() error) error { return errDown }
		e := newEngine(t, store)
		if res, err := e.Do(t.Context(), debit("k"), done); err != nil || !res.Unrecorded {
			t.Errorf("%+v, %v", res, err)
		}
		begin := time.Now()
		if err := e.Close(); err != nil || time.Since(begin) > 0 {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		if n := store.completes.Load(); n != 2 {
			t.Errorf("tried %d times", n)
		}
	})
}

func TestDoOfACallRecordsBeforeItReturns(t *testing.T) {
	for name, tt := range map[string]struct {
		fails      int64
		unrecorded bool
		within     time.Duration
	}{
		"the store is back at once":  {fails: 2, within: time.Second},
		"the store does not recover": {fails: 1000, unrecorded: true, within: 6 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newHooked()
				store.onComplete = func(_ context.Context, _ dedup.Completion, next func() error) error {
					if store.completes.Load() <= tt.fails {
						return errDown
					}
					return next()
				}
				begin := time.Now()
				res, err := dedup.Do(t.Context(), store, debit("k"), done)
				if d := time.Since(begin); err != nil || res.Unrecorded != tt.unrecorded || d > tt.within {
					t.Errorf("%+v, %v after %v", res, err, d)
				}
			})
		})
	}
}

func TestAFloodOfUnrecordedOutcomesIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newHooked()
		var back atomic.Bool
		store.onComplete = func(_ context.Context, _ dedup.Completion, next func() error) error {
			if back.Load() {
				return next()
			}
			return errDown
		}
		e := newEngine(t, store)
		before := runtime.NumGoroutine()
		for i := range 1500 {
			if res, err := e.Do(t.Context(), debit(fmt.Sprint(i)), done); err != nil || !res.Unrecorded {
				t.Fatalf("%+v, %v", res, err)
			}
		}
		synctest.Wait()
		if n := runtime.NumGoroutine() - before; n > 1000 || n < 900 {
			t.Errorf("%d goroutines", n)
		}
		back.Store(true)
		time.Sleep(time.Minute)
		if res, err := e.Do(t.Context(), debit("0"), breaks); err != nil || !res.Replayed {
			t.Errorf("one of the first: %+v, %v", res, err)
		}
	})
}

func TestALostClaimIsAnsweredUnrecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newHooked()
		store.onRenew = func(context.Context, func() error) error { return errDown }
		e := newEngine(t, store, dedup.WithLease(time.Second))
		res, err := e.Do(t.Context(), debit("k"), func(context.Context) (dedup.Outcome, error) {
			time.Sleep(2 * time.Second)
			other := newEngine(t, store)
			if res, err := other.Do(t.Context(), debit("k"), func(context.Context) (dedup.Outcome, error) {
				return dedup.Outcome{Message: "other"}, nil
			}); err != nil || res.Replayed {
				t.Errorf("the takeover: %+v, %v", res, err)
			}
			return dedup.Outcome{Message: "mine"}, nil
		})
		if err != nil || !res.Unrecorded || res.Outcome.Message != "mine" {
			t.Errorf("%+v, %v", res, err)
		}
		if res, err := e.Do(t.Context(), debit("k"), breaks); err != nil || res.Outcome.Message != "other" {
			t.Errorf("repeat: %+v, %v", res, err)
		}
	})
}

func TestAnOutcomeTooLargeStandsAndIsNotExecutedAgain(t *testing.T) {
	large := func(context.Context) (dedup.Outcome, error) {
		return dedup.Outcome{Response: dedup.Payload{Value: make([]byte, 1000)}}, nil
	}
	for name, tt := range map[string]struct {
		store *dedup.Memory
		opts  []dedup.Option
	}{
		"for the engine": {dedup.NewMemory(), []dedup.Option{dedup.WithMaxOutcome(900)}},
		"for the store":  {dedup.NewMemory(dedup.WithMaxBytes(900)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEngine(t, tt.store, tt.opts...)
				first := start(t.Context(), e, debit("k"), func(ctx context.Context) (dedup.Outcome, error) {
					time.Sleep(time.Second)
					return large(ctx)
				})
				waits := start(t.Context(), e, debit("k"), breaks)
				if r := <-first; r.err != nil || len(r.Outcome.Response.Value) != 1000 || !r.Unrecorded {
					t.Errorf("%+v", r)
				}
				if r := <-waits; !errors.Is(r.err, dedup.ErrTooLarge) {
					t.Errorf("one that waited: %+v", r)
				}
				if _, err := e.Do(t.Context(), debit("k"), breaks); !errors.Is(err, dedup.ErrTooLarge) {
					t.Errorf("repeat: %v", err)
				}
			})
		})
	}
}

func TestAnOutcomeTooLargeIsUnrecordedAlsoWhereTheMarkerIsRecordedLater(t *testing.T) {
	store := newHooked()
	store.onComplete = func(_ context.Context, _ dedup.Completion, next func() error) error {
		if store.completes.Load() == 1 {
			return errDown
		}
		return next()
	}
	res, err := dedup.Do(t.Context(), store, debit("k"), done, dedup.WithMaxOutcome(1))
	if err != nil || !res.Unrecorded {
		t.Errorf("%+v, %v", res, err)
	}
	if _, err := dedup.Do(t.Context(), store, debit("k"), breaks); !errors.Is(err, dedup.ErrTooLarge) {
		t.Errorf("repeat: %v", err)
	}
}

func TestAClaimThatCannotBeReleasedIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newHooked()
		store.onRelease = func(_ context.Context, next func() error) error {
			if store.releases.Load() < 3 {
				return errDown
			}
			return next()
		}
		e := newEngine(t, store)
		res, err := e.Do(t.Context(), debit("k"), func(context.Context) (dedup.Outcome, error) {
			return dedup.Outcome{Code: codes.Unavailable}, nil
		})
		if err != nil || res.Outcome.Code != codes.Unavailable {
			t.Errorf("%+v, %v", res, err)
		}
		begin := time.Now()
		if res, err := e.Do(t.Context(), debit("k"), done); err != nil || res.Replayed || time.Since(begin) > time.Second {
			t.Errorf("%+v, %v after %v", res, err, time.Since(begin))
		}
	})
}

func TestAClaimWhoseAnswerWasLostRecognisesItself(t *testing.T) {
	store := newHooked()
	var owners []dedup.Owner
	store.onClaim = func(_ context.Context, req dedup.ClaimRequest, next func() (dedup.Answer, error)) (dedup.Answer, error) {
		owners = append(owners, req.Owner)
		answer, err := next()
		if len(owners) == 1 {
			return dedup.Answer{}, errDown
		}
		return answer, err
	}
	e := newEngine(t, store)
	if res, err := e.Do(t.Context(), debit("k"), done); err != nil || res.Replayed {
		t.Errorf("%+v, %v", res, err)
	}
	if len(owners) != 2 || owners[0] != owners[1] || owners[0] == (dedup.Owner{}) {
		t.Errorf("owners %x", owners)
	}
}

func TestAStoreThatCannotBeAskedFailsTheCall(t *testing.T) {
	store := newHooked()
	store.onClaim = func(context.Context, dedup.ClaimRequest, func() (dedup.Answer, error)) (dedup.Answer, error) {
		return dedup.Answer{}, errDown
	}
	e := newEngine(t, store)
	_, err := e.Do(t.Context(), debit("k"), breaks)
	var failed *dedup.StoreError
	if !errors.As(err, &failed) || failed.Op != "claim" || !errors.Is(err, dedup.ErrStoreUnavailable) || !errors.Is(err, errDown) {
		t.Error(err)
	}
	if n := store.claims.Load(); n != 2 {
		t.Errorf("asked %d times", n)
	}
	if s := err.Error(); !strings.Contains(s, "claim") || !strings.Contains(s, errDown.Error()) || strings.Contains(s, "tenant") {
		t.Errorf("it says %q", s)
	}
}

func TestAStoreThatIsFullIsNotAskedTwice(t *testing.T) {
	store := &hooked{Memory: dedup.NewMemory(dedup.WithMaxKeys(1))}
	e := newEngine(t, store)
	if _, err := e.Do(t.Context(), debit("a"), done); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Do(t.Context(), debit("b"), breaks); !errors.Is(err, dedup.ErrFull) || errors.Is(err, dedup.ErrStoreUnavailable) {
		t.Error(err)
	}
	if n := store.claims.Load(); n != 2 {
		t.Errorf("asked %d times in all", n)
	}
	if res, err := e.Do(t.Context(), debit("a"), breaks); err != nil || !res.Replayed {
		t.Errorf("what is there: %+v, %v", res, err)
	}
}

func TestAClaimThatItsCallerDidNotWaitForIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newHooked()
		store.onClaim = func(ctx context.Context, _ dedup.ClaimRequest, next func() (dedup.Answer, error)) (dedup.Answer, error) {
			answer, err := next()
			if store.claims.Load() == 1 {
				<-ctx.Done() // the claim is there, and its answer is not
				return dedup.Answer{}, ctx.Err()
			}
			return answer, err
		}
		e := newEngine(t, store)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := e.Do(ctx, debit("k"), breaks); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		synctest.Wait()
		op := debit("k")
		op.OnUnknown = dedup.Reject
		begin := time.Now()
		if res, err := e.Do(t.Context(), op, done); err != nil || res.Replayed || time.Since(begin) > 0 {
			t.Errorf("%+v, %v after %v", res, err, time.Since(begin))
		}
	})
}

// TestGivingBackTakesNothingOver: whoever gives back what it may have been given
// must not touch an execution of another whose outcome is unknown.
func TestGivingBackTakesNothingOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newHooked()
		e := newEngine(t, store, dedup.WithLease(time.Second))
		half := func(context.Context) (dedup.Outcome, error) { return dedup.Outcome{Code: codes.Internal}, nil }
		if _, err := e.Do(t.Context(), debit("k"), half); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		before := store.claims.Load()
		store.onClaim = func(ctx context.Context, _ dedup.ClaimRequest, next func() (dedup.Answer, error)) (dedup.Answer, error) {
			if store.claims.Load() == before+1 {
				<-ctx.Done() // and the store never saw it
				return dedup.Answer{}, ctx.Err()
			}
			return next()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := e.Do(ctx, debit("k"), breaks); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		synctest.Wait()
		if n := store.claims.Load() - before; n != 2 {
			t.Errorf("asked %d times", n)
		}
		op := debit("k")
		op.OnUnknown = dedup.Reject
		if _, err := e.Do(t.Context(), op, breaks); !errors.Is(err, dedup.ErrOutcomeUnknown) {
			t.Error(err)
		}
	})
}

// TestAClaimHasTheLargerOfWaitAndStoreTimeout, since a store whose claims are
// transactions waits in it.
func TestAClaimHasTheLargerOfWaitAndStoreTimeout(t *testing.T) {
	for _, tt := range []struct{ wait, timeout, want time.Duration }{
		{time.Second, 5 * time.Second, 5 * time.Second},
		{20 * time.Second, 5 * time.Second, 20 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := newHooked()
			store.onClaim = func(ctx context.Context, _ dedup.ClaimRequest, next func() (dedup.Answer, error)) (dedup.Answer, error) {
				if d, ok := ctx.Deadline(); !ok || time.Until(d) != tt.want {
					t.Errorf("a claim has %v, want %v", time.Until(d), tt.want)
				}
				return next()
			}
			e := newEngine(t, store, dedup.WithWait(tt.wait), dedup.WithStoreTimeout(tt.timeout))
			if _, err := e.Do(t.Context(), debit("k"), done); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAStoreThatAnswersNonsenseFailsTheCall(t *testing.T) {
	for _, answer := range []dedup.Answer{{}, {State: 99}, {State: dedup.Claimed}} {
		store := newHooked()
		store.onClaim = func(context.Context, dedup.ClaimRequest, func() (dedup.Answer, error)) (dedup.Answer, error) {
			return answer, nil
		}
		if _, err := newEngine(t, store).Do(t.Context(), debit("k"), breaks); !errors.Is(err, dedup.ErrStoreUnavailable) {
			t.Errorf("%v: %v", answer.State, err)
		}
	}
}

func TestATransactionAndItsOutcome(t *testing.T) {
	failed := errors.New("failed")
	for name, tt := range map[string]struct {
		out     dedup.Outcome
		err     error
		panics  bool
		written []string
		again   bool // the repeat executes
	}{
		"OK is kept with its writes":                  {written: []string{"w"}},
		"a business error is kept without":            {out: dedup.Outcome{Code: codes.FailedPrecondition}},
		"what has no effect is undone":                {out: dedup.Outcome{Code: codes.Unavailable}, again: true},
		"what is uncertain is undone":                 {out: dedup.Outcome{Code: codes.Internal}, again: true},
		"an error is undone":                          {err: failed, again: true},
		"a panic is undone":                           {panics: true, again: true},
		"what is too large for the engine is gone":    {out: dedup.Outcome{Message: string(make([]byte, 2000))}, err: dedup.ErrTooLarge, again: true},
		"and so is a business error that is too long": {out: dedup.Outcome{Code: codes.NotFound, Message: string(make([]byte, 2000))}, err: dedup.ErrTooLarge, again: true},
	} {
		t.Run(name, func(t *testing.T) {
			store := newTransactional()
			e := newEngine(t, store, dedup.WithMaxOutcome(1000))
			func() {
				defer func() {
					if v := recover(); (v != nil) != tt.panics {
						t.Errorf("recovered %v", v)
					}
				}()
				res, err := e.Do(t.Context(), debit("k"), func(ctx context.Context) (dedup.Outcome, error) {
					write(ctx, "w")
					if tt.panics {
						panic("broken")
					}
					if errors.Is(tt.err, failed) {
						return dedup.Outcome{}, tt.err
					}
					return tt.out, nil
				})
				if !errors.Is(err, tt.err) || err == nil && !reflect.DeepEqual(res.Outcome, tt.out) {
					t.Errorf("the caller got %+v, %v", res, err)
				}
			}()
			if got := store.written(); !reflect.DeepEqual(got, tt.written) {
				t.Errorf("written: %q, want %q", got, tt.written)
			}
			res, err := e.Do(t.Context(), debit("k"), done)
			if err != nil || res.Replayed == tt.again {
				t.Errorf("repeat: %+v, %v", res, err)
			}
		})
	}
}

func TestATransactionThatFailsTellsNobodyOfSuccess(t *testing.T) {
	for name, tt := range map[string]struct {
		err, want error
	}{
		"the store is down":           {errDown, dedup.ErrStoreUnavailable},
		"the claim is lost":           {dedup.ErrLeaseLost, dedup.ErrStoreUnavailable},
		"the store is full":           {dedup.ErrFull, dedup.ErrFull},
		"it is too large for a store": {dedup.ErrTooLarge, dedup.ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			store := newTransactional()
			store.completeErr = tt.err
			e := newEngine(t, store)
			fn := func(ctx context.Context) (dedup.Outcome, error) {
				write(ctx, "w")
				return done(ctx)
			}
			res, err := e.Do(t.Context(), debit("k"), fn)
			if !errors.Is(err, tt.want) || !reflect.DeepEqual(res, dedup.Result{}) {
				t.Errorf("%+v, %v", res, err)
			}
			if errors.Is(err, dedup.ErrStoreUnavailable) != (tt.want == dedup.ErrStoreUnavailable) {
				t.Errorf("is the store available? %v", err)
			}
			if got := store.written(); got != nil {
				t.Errorf("written: %q", got)
			}
			store.completeErr = nil
			if res, err := e.Do(t.Context(), debit("k"), fn); err != nil || res.Replayed || len(store.written()) != 1 {
				t.Errorf("repeat: %+v, %v", res, err)
			}
		})
	}
}

func TestACommitWhoseAnswerWasLostIsFoundByTheRetry(t *testing.T) {
	store := newTransactional()
	store.afterComplete = errDown
	e := newEngine(t, store)
	fn := func(ctx context.Context) (dedup.Outcome, error) {
		write(ctx, "w")
		return done(ctx)
	}
	var failed *dedup.StoreError
	if _, err := e.Do(t.Context(), debit("k"), fn); !errors.As(err, &failed) || failed.Op != "complete" {
		t.Error(err)
	}
	if res, err := e.Do(t.Context(), debit("k"), fn); err != nil || !res.Replayed || res.Outcome.Message != "done" {
		t.Errorf("retry: %+v, %v", res, err)
	}
	if got := store.written(); len(got) != 1 {
		t.Errorf("written: %q", got)
	}
}

func TestANestedOperationJoinsTheTransaction(t *testing.T) {
	for name, code := range map[string]codes.Code{"that commits": codes.OK, "that is undone": codes.Internal} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newTransactional()
				e := newEngine(t, store)
				_, err := e.Do(t.Context(), debit("outer"), func(ctx context.Context) (dedup.Outcome, error) {
					write(ctx, "outer")
					limit, _ := ctx.Deadline()
					time.Sleep(time.Second)
					_, err := e.Do(ctx, debit("inner"), func(ctx context.Context) (dedup.Outcome, error) {
						if d, _ := ctx.Deadline(); !d.Equal(limit) {
							t.Errorf("the inner one may run %v longer than its transaction", d.Sub(limit))
						}
						write(ctx, "inner")
						return dedup.Outcome{}, nil
					})
					return dedup.Outcome{Code: code}, err
				})
				if err != nil {
					t.Fatal(err)
				}
				want := 0
				if code == codes.OK {
					want = 2
				}
				if got := store.written(); len(got) != want {
					t.Errorf("written: %q", got)
				}
				res, err := e.Do(t.Context(), debit("inner"), done)
				if err != nil || res.Replayed != (code == codes.OK) {
					t.Errorf("the inner one again: %+v, %v", res, err)
				}
			})
		})
	}
}

func TestANestedOperationWaitsForNobodyInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { nestedOperationWaitsForNobody(t, false) })
	// An execution on another store may lie between the two.
	synctest.Test(t, func(t *testing.T) { nestedOperationWaitsForNobody(t, true) })
}

func nestedOperationWaitsForNobody(t *testing.T, between bool) {
	// The inner operation's leader waits for the outer one's transaction,
	// which ends only if the inner call does not wait for the leader.
	store := newHooked()
	held := make(chan struct{})
	e := newEngine(t, store)
	var leader <-chan reply
	_, err := e.Do(t.Context(), debit("outer"), func(ctx context.Context) (dedup.Outcome, error) {
		store.onClaim = func(_ context.Context, _ dedup.ClaimRequest, next func() (dedup.Answer, error)) (dedup.Answer, error) {
			<-held
			return next()
		}
		leader = start(context.Background(), e, debit("inner"), done)
		store.onClaim = nil
		begin := time.Now()
		inner := func(ctx context.Context) (dedup.Outcome, error) {
			res, err := e.Do(ctx, debit("inner"), done)
			if err != nil || res.Replayed || time.Since(begin) > 0 {
				t.Errorf("%+v, %v after %v", res, err, time.Since(begin))
			}
			return dedup.Outcome{}, nil
		}
		if !between {
			return inner(ctx)
		}
		res, err := newEngine(t, dedup.NewMemory()).Do(ctx, debit("between"), inner)
		return res.Outcome, err
	})
	close(held)
	if r := <-leader; err != nil || r.err != nil || !r.Replayed {
		t.Errorf("%v, %+v", err, r)
	}
}

func TestANestedOperationWaitsForAnotherExecutionOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newHooked()
		e, g := newEngine(t, store), newGate()
		elsewhere := start(t.Context(), newEngine(t, store), debit("inner"), g.run)
		_, err := e.Do(t.Context(), debit("outer"), func(ctx context.Context) (dedup.Outcome, error) {
			inner := start(ctx, e, debit("inner"), breaks)
			time.Sleep(time.Second)
			g.let <- dedup.Outcome{Message: "elsewhere"}
			if r := <-inner; r.err != nil || !r.Replayed || !r.Waited || r.Outcome.Message != "elsewhere" {
				t.Errorf("%+v", r)
			}
			return dedup.Outcome{}, nil
		})
		if r := <-elsewhere; err != nil || r.err != nil {
			t.Errorf("%v, %+v", err, r)
		}
	})
}

func TestStoreWritesHaveAContextOfTheirOwn(t *testing.T) {
	store := newHooked()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	store.onComplete = func(ctx context.Context, _ dedup.Completion, next func() error) error {
		if d, ok := ctx.Deadline(); ctx.Err() != nil || !ok || time.Until(d) > dedup.DefaultStoreTimeout {
			t.Errorf("%v, deadline %v", ctx.Err(), d)
		}
		return next()
	}
	res, err := newEngine(t, store).Do(ctx, debit("k"), func(context.Context) (dedup.Outcome, error) {
		cancel()
		return dedup.Outcome{}, nil
	})
	if err != nil || res.Unrecorded {
		t.Errorf("%+v, %v", res, err)
	}
}
