package dedup_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
)

func TestTheLeaseIsRenewedWhileTheHandlerRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newHooked()
		e := newEngine(t, store, dedup.WithMaxExecution(time.Hour))
		op := debit("k")
		op.Lease = 3 * time.Second
		other := newEngine(t, store, dedup.WithWait(time.Millisecond))
		_, err := e.Do(t.Context(), op, func(ctx context.Context) (dedup.Outcome, error) {
			for range 20 {
				time.Sleep(time.Second + time.Millisecond)
				if _, err := other.Do(t.Context(), op, nil); !errors.Is(err, dedup.ErrInProgress) {
					t.Errorf("another caller: %v", err)
				}
			}
			return dedup.Outcome{}, ctx.Err()
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := store.renews.Load(); n != 20 {
			t.Errorf("renewed %d times", n)
		}
		time.Sleep(time.Minute)
		if n := store.renews.Load(); n != 20 {
			t.Errorf("renewed %d times after all", n)
		}
	})
}

func TestALostLeaseCancelsTheHandler(t *testing.T) {
	for name, tt := range map[string]struct {
		renew func(ctx context.Context, next func() error) error
		after time.Duration
	}{
		"because the store says so": {
			renew: func(context.Context, func() error) error { return dedup.ErrLeaseLost },
			after: time.Second,
		},
		"because the store cannot be reached until it has run out": {
			renew: func(context.Context, func() error) error { return errors.New("unreachable") },
			after: 3 * time.Second,
		},
		"because the store takes its time to say that it cannot be reached": {
			renew: func(context.Context, func() error) error {
				time.Sleep(100 * time.Millisecond)
				return errors.New("unreachable")
			},
			after: 3 * time.Second,
		},
		"counted from when the store was asked": { // the last renewal that it answered was asked for after one second
			renew: func() func(context.Context, func() error) error {
				asked := false
				return func(_ context.Context, next func() error) error {
					if asked {
						return errors.New("unreachable")
					}
					asked = true
					defer time.Sleep(500 * time.Millisecond)
					return next()
				}
			}(),
			after: 4 * time.Second,
		},
		"because the store does not answer until it has run out": {
			renew: func(ctx context.Context, _ func() error) error { <-ctx.Done(); return ctx.Err() },
			after: 3 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newHooked()
				store.onRenew = tt.renew
				e := newEngine(t, store, dedup.WithLease(3*time.Second))
				begin := time.Now()
				_, err := e.Do(t.Context(), debit("k"), func(ctx context.Context) (dedup.Outcome, error) {
					<-ctx.Done()
					if cause := context.Cause(ctx); !errors.Is(cause, dedup.ErrLeaseLost) {
						t.Errorf("the cause is %v", cause)
					}
					return dedup.Outcome{}, ctx.Err()
				})
				if d := time.Since(begin); d != tt.after {
					t.Errorf("after %v", d)
				}
				if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		})
	}
}

func TestARenewalThatFailsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newHooked()
		store.onRenew = func(_ context.Context, next func() error) error {
			if store.renews.Load()%2 == 1 {
				return errors.New("unreachable")
			}
			return next()
		}
		e := newEngine(t, store, dedup.WithLease(3*time.Second), dedup.WithMaxExecution(time.Hour))
		_, err := e.Do(t.Context(), debit("k"), func(ctx context.Context) (dedup.Outcome, error) {
			time.Sleep(20 * time.Second)
			return dedup.Outcome{}, ctx.Err()
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestARenewalUnderWayEndsWithTheExecution(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newHooked()
		store.onRenew = func(ctx context.Context, _ func() error) error { <-ctx.Done(); return ctx.Err() }
		e := newEngine(t, store, dedup.WithLease(30*time.Second), dedup.WithStoreTimeout(20*time.Second))
		begin := time.Now()
		_, err := e.Do(t.Context(), debit("k"), func(ctx context.Context) (dedup.Outcome, error) {
			time.Sleep(11 * time.Second)
			return dedup.Outcome{}, nil
		})
		if d := time.Since(begin); err != nil || d != 11*time.Second || store.renews.Load() != 1 {
			t.Errorf("%v after %v and %d renewals", err, d, store.renews.Load())
		}
	})
}

func TestDoReturnsAfterItsLastRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newHooked()
		returned := false
		store.onRenew = func(ctx context.Context, _ func() error) error {
			<-ctx.Done()
			time.Sleep(time.Second) // a store that is slow to notice
			if returned {
				t.Error("a renewal outlives the call")
			}
			return ctx.Err()
		}
		e := newEngine(t, store, dedup.WithLease(30*time.Second), dedup.WithStoreTimeout(20*time.Second))
		_, err := e.Do(t.Context(), debit("k"), func(ctx context.Context) (dedup.Outcome, error) {
			time.Sleep(11 * time.Second)
			return dedup.Outcome{}, nil
		})
		returned = true
		if err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
	})
}

func TestAClaimWhoseAnswerTookLongerThanItsLeaseIsRenewedFirst(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := newHooked()
			store.onClaim = func(_ context.Context, _ dedup.ClaimRequest, next func() (dedup.Answer, error)) (dedup.Answer, error) {
				answer, err := next()
				time.Sleep(2 * time.Second)
				return answer, err
			}
			if lost {
				store.onRenew = func(context.Context, func() error) error { return dedup.ErrLeaseLost }
			}
			e := newEngine(t, store, dedup.WithLease(time.Second))
			_, err := e.Do(t.Context(), debit("k"), func(ctx context.Context) (dedup.Outcome, error) {
				if store.renews.Load() != 1 || lost {
					t.Error("executed without a lease")
				}
				return dedup.Outcome{}, ctx.Err()
			})
			if lost != errors.Is(err, dedup.ErrStoreUnavailable) {
				t.Errorf("lost=%v: %v", lost, err)
			}
		})
	}
}

// TestNothingIsExecutedWhereTheStoreIsSlowerThanTheLease: when the renewal has
// been answered, the lease that it gave has ended too.
func TestNothingIsExecutedWhereTheStoreIsSlowerThanTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newHooked()
		store.onClaim = func(_ context.Context, _ dedup.ClaimRequest, next func() (dedup.Answer, error)) (dedup.Answer, error) {
			answer, err := next()
			time.Sleep(2 * time.Second)
			return answer, err
		}
		store.onRenew = func(_ context.Context, next func() error) error {
			err := next()
			time.Sleep(2 * time.Second)
			return err
		}
		e := newEngine(t, store, dedup.WithLease(time.Second))
		if _, err := e.Do(t.Context(), debit("k"), breaks); !errors.Is(err, dedup.ErrStoreUnavailable) {
			t.Error(err)
		}
		if n := store.releases.Load(); n != 1 {
			t.Errorf("released %d times", n)
		}
	})
}

// TestALeaseThatEndsWithTheSettlementIsNotLost: a renewal that the store sees
// after the settlement finds no claim, and nobody should be alarmed.
func TestALeaseThatEndsWithTheSettlementIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		store := newHooked()
		store.onComplete = func(_ context.Context, _ dedup.Completion, next func() error) error {
			err := next()
			time.Sleep(time.Second)
			return err
		}
		e := newEngine(t, store, dedup.WithLease(time.Second), dedup.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		if res, err := e.Do(t.Context(), debit("k"), done); err != nil || res.Unrecorded {
			t.Errorf("%+v, %v", res, err)
		}
		if store.renews.Load() == 0 || log.Len() > 0 {
			t.Errorf("%d renewals; the log says %s", store.renews.Load(), &log)
		}
	})
}

func TestAnExecutionWhoseLeaseRanOutIsRecordedWhereNobodyTookOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newHooked()
		store.onRenew = func(context.Context, func() error) error { return errors.New("unreachable") }
		e := newEngine(t, store, dedup.WithLease(time.Second))
		res, err := e.Do(t.Context(), debit("k"), func(ctx context.Context) (dedup.Outcome, error) {
			<-ctx.Done()
			time.Sleep(time.Second)
			return dedup.Outcome{Message: "late"}, nil
		})
		if err != nil || res.Unrecorded {
			t.Errorf("%+v, %v", res, err)
		}
		if res, err := e.Do(t.Context(), debit("k"), nil); err != nil || res.Outcome.Message != "late" {
			t.Errorf("repeat: %+v, %v", res, err)
		}
	})
}
