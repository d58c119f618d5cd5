package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/retrysafe/retrysafe/dedup"
)

// gate is a handler that says when it runs and ends when it is let.
type gate struct {
	ran atomic.Int64
	let chan dedup.Outcome
}

func newGate() *gate { return &gate{let: make(chan dedup.Outcome)} }

func (g *gate) run(context.Context) (dedup.Outcome, error) {
	g.ran.Add(1)
	return <-g.let, nil
}

// reply is what a call of Do returned.
type reply struct {
	dedup.Result
	err error
}

// start calls Do in a goroutine and returns when it has nothing left to do but
// wait, within a bubble.
func start(ctx context.Context, e *dedup.Engine, op dedup.Operation, fn func(context.Context) (dedup.Outcome, error)) <-chan reply {
	c := make(chan reply, 1)
	go func() {
		res, err := e.Do(ctx, op, fn)
		c <- reply{res, err}
	}()
	synctest.Wait()
	return c
}

func TestOf64CallersOneExecutesAndOneAsksTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, g := newHooked(), newGate()
		e := newEngine(t, store)
		var calls []<-chan reply
		for range 64 {
			calls = append(calls, start(t.Context(), e, debit("k"), g.run))
		}
		g.let <- dedup.Outcome{Message: "one", Trailer: map[string][]string{"a": {"b"}}}
		executed := 0
		for _, c := range calls {
			r := <-c
			if r.err != nil || r.Outcome.Message != "one" || r.Replayed != r.Waited {
				t.Fatalf("%+v", r)
			}
			if !r.Replayed {
				executed++
			}
			r.Outcome.Trailer["a"][0] = "mine" // nobody else's
		}
		if executed != 1 || g.ran.Load() != 1 {
			t.Errorf("%d callers executed, %d times", executed, g.ran.Load())
		}
		if n := store.claims.Load(); n != 1 {
			t.Errorf("%d claims", n)
		}
		if res, err := e.Do(t.Context(), debit("k"), g.run); err != nil || res.Outcome.Trailer["a"][0] != "b" {
			t.Errorf("a caller changed the record: %+v, %v", res, err)
		}
	})
}

func TestCallersThatWaitForATransactionDoNotAskTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, g := newTransactional(), newGate()
		asked := 0
		e := newEngine(t, store, dedup.WithObserver(dedup.Observer{
			StoreCall: func(context.Context, string, dedup.StoreCall, time.Duration, error) { asked++ },
		}))
		var calls []<-chan reply
		for range 64 {
			calls = append(calls, start(t.Context(), e, debit("k"), g.run))
		}
		g.let <- dedup.Outcome{Message: "one"}
		for _, c := range calls {
			if r := <-c; r.err != nil || r.Outcome.Message != "one" {
				t.Fatalf("%+v", r)
			}
		}
		if asked != 2 {
			t.Errorf("%d store calls, want a claim and its completion", asked)
		}
	})
}

func TestAWaiterWithAnotherRequestIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		e := newEngine(t, dedup.NewMemory())
		first := start(t.Context(), e, debit("k"), g.run)
		other := debit("k")
		other.Fingerprint.Sum[0]++
		started := time.Now()
		if _, err := e.Do(t.Context(), other, g.run); !errors.Is(err, dedup.ErrKeyReused) || time.Since(started) > 0 {
			t.Errorf("%v after %v", err, time.Since(started))
		}
		g.let <- dedup.Outcome{}
		if r := <-first; r.err != nil {
			t.Error(r.err)
		}
	})
}

func TestWhileTheStoreHasNotJudgedNoRequestIsRefused(t *testing.T) {
	for name, known := range map[string]byte{"the leader's is the operation's": 0, "the waiter's is": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newHooked()
				e := newEngine(t, store)
				ops := [2]dedup.Operation{debit("k"), debit("k")}
				ops[1].Fingerprint.Sum[0]++
				fn, ran := counted(dedup.Outcome{})
				if _, err := e.Do(t.Context(), ops[known], fn); err != nil {
					t.Fatal(err)
				}
				answer := make(chan struct{})
				store.onClaim = func(ctx context.Context, _ dedup.ClaimRequest, next func() (dedup.Answer, error)) (dedup.Answer, error) {
					<-answer
					return next()
				}
				calls := [2]<-chan reply{start(t.Context(), e, ops[0], fn), start(t.Context(), e, ops[1], fn)}
				close(answer)
				for i, c := range calls {
					r := <-c
					if i == int(known) && (r.err != nil || !r.Replayed) {
						t.Errorf("the operation's own request: %+v", r)
					}
					if i != int(known) && !errors.Is(r.err, dedup.ErrKeyReused) {
						t.Errorf("another request: %+v", r)
					}
				}
				if *ran != 1 {
					t.Errorf("executed %d times", *ran)
				}
			})
		})
	}
}

func TestAWaiterWithAnotherRequestIsRefusedOnceTheLeaderHasTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, g, answer := newHooked(), newGate(), make(chan struct{})
		store.onClaim = func(_ context.Context, _ dedup.ClaimRequest, next func() (dedup.Answer, error)) (dedup.Answer, error) {
			<-answer
			return next()
		}
		e := newEngine(t, store)
		other := debit("k")
		other.Fingerprint.Sum[0]++
		leader := start(t.Context(), e, debit("k"), g.run)
		waits, refused := start(t.Context(), e, debit("k"), g.run), start(t.Context(), e, other, g.run)
		close(answer)
		if r := <-refused; !errors.Is(r.err, dedup.ErrKeyReused) || g.ran.Load() != 1 {
			t.Errorf("%+v, executed %d times", r, g.ran.Load())
		}
		g.let <- dedup.Outcome{}
		if a, b := <-leader, <-waits; a.err != nil || b.err != nil {
			t.Errorf("%v, %v", a.err, b.err)
		}
	})
}

func TestTheNextLeadersRequestIsTheOneToCompareWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, g, answer := newHooked(), newGate(), make(chan error)
		store.onClaim = func(_ context.Context, _ dedup.ClaimRequest, next func() (dedup.Answer, error)) (dedup.Answer, error) {
			if err := <-answer; err != nil {
				return dedup.Answer{}, err
			}
			return next()
		}
		e := newEngine(t, store)
		a, b := debit("k"), debit("k")
		b.Fingerprint.Sum[0]++
		leader := start(t.Context(), e, a, g.run)
		nextB, otherB, otherA := start(t.Context(), e, b, g.run), start(t.Context(), e, b, g.run), start(t.Context(), e, a, g.run)
		answer <- errDown
		answer <- errDown
		if r := <-leader; !errors.Is(r.err, dedup.ErrStoreUnavailable) {
			t.Errorf("the leader: %+v", r)
		}
		answer <- nil
		g.let <- dedup.Outcome{}
		if r := <-nextB; r.err != nil || r.Replayed {
			t.Errorf("the next one: %+v", r)
		}
		if r := <-otherB; r.err != nil || !r.Replayed {
			t.Errorf("one like the next one: %+v", r)
		}
		if r := <-otherA; !errors.Is(r.err, dedup.ErrKeyReused) {
			t.Errorf("one like the first: %+v", r)
		}
		if n := store.claims.Load(); n != 3 {
			t.Errorf("%d claims", n)
		}
	})
}

func TestAnUnknownOutcomeIsRejectedForThoseAloneWhoRejectIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newHooked()
		rejects := debit("k")
		rejects.OnUnknown = dedup.Reject
		if _, err := store.Memory.Claim(t.Context(), dedup.ClaimRequest{Key: rejects.Key, Fingerprint: rejects.Fingerprint,
			Lease: time.Second, Retention: time.Hour}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		answer := make(chan struct{})
		store.onClaim = func(_ context.Context, _ dedup.ClaimRequest, next func() (dedup.Answer, error)) (dedup.Answer, error) {
			<-answer
			return next()
		}
		e := newEngine(t, store)
		leader := start(t.Context(), e, rejects, breaks)
		like, unlike := start(t.Context(), e, rejects, breaks), start(t.Context(), e, debit("k"), done)
		close(answer)
		for _, c := range []<-chan reply{leader, like} {
			if r := <-c; !errors.Is(r.err, dedup.ErrOutcomeUnknown) {
				t.Errorf("under Reject: %+v", r)
			}
		}
		if r := <-unlike; r.err != nil || r.Replayed {
			t.Errorf("under Reexecute: %+v", r)
		}
	})
}

func TestATransactionElsewhereHasJudgedNobodyYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, g := newTransactional(), newGate()
		own, other := debit("k"), debit("k")
		other.Fingerprint.Sum[0]++
		first := start(t.Context(), newEngine(t, store), own, g.run)
		e := newEngine(t, store)
		leader := start(t.Context(), e, other, breaks)
		waits := start(t.Context(), e, own, breaks)
		g.let <- dedup.Outcome{}
		if r := <-first; r.err != nil {
			t.Error(r.err)
		}
		if r := <-leader; !errors.Is(r.err, dedup.ErrKeyReused) {
			t.Errorf("another request: %+v", r)
		}
		if r := <-waits; r.err != nil || !r.Replayed {
			t.Errorf("the operation's own: %+v", r)
		}
	})
}

// deaf is a store that never wakes anybody.
type deaf struct{ *hooked }

func (deaf) Wait(ctx context.Context, _ dedup.Key) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestNobodyWaitsLongerThanTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, op := deaf{newHooked()}, debit("k")
		if _, err := store.Memory.Claim(t.Context(), dedup.ClaimRequest{Key: op.Key, Fingerprint: op.Fingerprint,
			Lease: time.Second, Retention: time.Hour}); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		res, err := newEngine(t, store).Do(t.Context(), op, done)
		if d := time.Since(begin); err != nil || res.Replayed || d != time.Second {
			t.Errorf("%+v, %v after %v", res, err, d)
		}
	})
}

func TestALeaderInAHurryFailsNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newHooked()
		e := newEngine(t, store)
		slow := true
		store.onClaim = func(ctx context.Context, _ dedup.ClaimRequest, next func() (dedup.Answer, error)) (dedup.Answer, error) {
			if slow {
				slow = false
				<-ctx.Done()
				return dedup.Answer{}, ctx.Err()
			}
			return next()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		fn, ran := counted(dedup.Outcome{})
		leader := start(ctx, e, debit("k"), fn)
		var others []<-chan reply
		for range 10 {
			others = append(others, start(t.Context(), e, debit("k"), fn))
		}
		if r := <-leader; !errors.Is(r.err, context.DeadlineExceeded) {
			t.Errorf("the leader: %+v", r)
		}
		for _, c := range others {
			if r := <-c; r.err != nil {
				t.Errorf("another: %v", r.err)
			}
		}
		if *ran != 1 {
			t.Errorf("executed %d times", *ran)
		}
	})
}

func TestWaitersExecuteOneAfterAnotherWhereNothingTookEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		e := newEngine(t, dedup.NewMemory())
		var calls []<-chan reply
		for range 5 {
			calls = append(calls, start(t.Context(), e, debit("k"), g.run))
		}
		for i, c := range calls[:3] {
			g.let <- dedup.Outcome{Code: codes.Unavailable}
			if r := <-c; r.err != nil || r.Outcome.Code != codes.Unavailable || r.Replayed {
				t.Fatalf("call %d: %+v", i, r)
			}
			synctest.Wait()
			if n := int(g.ran.Load()); n != i+2 {
				t.Fatalf("after call %d: executed %d times", i, n)
			}
		}
		g.let <- dedup.Outcome{}
		for _, c := range calls[3:] {
			if r := <-c; r.err != nil || r.Outcome.Code != codes.OK {
				t.Errorf("%+v", r)
			}
		}
	})
}

func TestALeaderThatPanicsLetsTheNextOneLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, newTransactional())
		go func() {
			defer func() { _ = recover() }()
			_, _ = e.Do(t.Context(), debit("k"), func(context.Context) (dedup.Outcome, error) {
				time.Sleep(time.Second)
				panic("broken")
			})
		}()
		synctest.Wait()
		fn, ran := counted(dedup.Outcome{})
		if r := <-start(t.Context(), e, debit("k"), fn); r.err != nil || *ran != 1 {
			t.Errorf("%+v, executed %d times", r, *ran)
		}
	})
}

func TestHowAWaitEnds(t *testing.T) {
	for _, where := range []string{"in memory", "woken by the store", "by polling the store"} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, g := newHooked(), newGate()
				var s dedup.Store = store
				if where == "by polling the store" {
					s = mute{store}
				}
				e := newEngine(t, s, dedup.WithWait(3*time.Second))
				elsewhere := e
				if where != "in memory" {
					elsewhere = newEngine(t, s)
				}
				first := start(t.Context(), elsewhere, debit("k"), g.run)
				begin := time.Now()

				_, err := e.Do(t.Context(), debit("k"), g.run)
				var busy *dedup.InProgressError
				if !errors.As(err, &busy) || busy.RetryAfter <= 0 || busy.RetryAfter > time.Second {
					t.Errorf("at the end of the budget: %v", err)
				}
				if d := time.Since(begin); d != 3*time.Second {
					t.Errorf("after %v", d)
				}

				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := e.Do(ctx, debit("k"), g.run); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, dedup.ErrInProgress) {
					t.Errorf("at the caller's deadline: %v", err)
				}
				ctx, cancel = context.WithCancel(t.Context())
				gone := start(ctx, e, debit("k"), g.run)
				cancel()
				if r := <-gone; !errors.Is(r.err, context.Canceled) {
					t.Errorf("when the caller is gone: %v", r.err)
				}
				if d := time.Since(begin); d != 4*time.Second {
					t.Errorf("after %v", d)
				}

				waits := start(t.Context(), e, debit("k"), g.run)
				begin = time.Now()
				g.let <- dedup.Outcome{Message: "done"}
				if r := <-waits; r.err != nil || !r.Waited || !r.Replayed || r.Outcome.Message != "done" {
					t.Errorf("when the outcome is there: %+v", r)
				}
				if d := time.Since(begin); d > 250*time.Millisecond || where != "by polling the store" && d > 0 {
					t.Errorf("after %v", d)
				}
				if r := <-first; r.err != nil {
					t.Error(r.err)
				}
				if n := g.ran.Load(); n != 1 {
					t.Errorf("executed %d times", n)
				}
				if n := store.claims.Load(); n > 100 {
					t.Errorf("%d claims", n)
				}
			})
		})
	}
}

func TestMaxWaitersBoundsThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, g := dedup.NewMemory(), newGate()
		e := newEngine(t, store, dedup.WithMaxWaiters(3))
		there := newEngine(t, store)
		calls := []<-chan reply{
			start(t.Context(), there, debit("elsewhere"), g.run),
			start(t.Context(), e, debit("a"), g.run),
			start(t.Context(), e, debit("elsewhere"), g.run), // waits for the store
			start(t.Context(), e, debit("a"), g.run),         // and these in memory
			start(t.Context(), e, debit("a"), g.run),
		}
		begin := time.Now()
		for range 2 {
			if _, err := e.Do(t.Context(), debit("a"), g.run); !errors.Is(err, dedup.ErrInProgress) {
				t.Errorf("one too many: %v", err)
			}
		}
		there2 := start(t.Context(), there, debit("b"), g.run)
		if _, err := e.Do(t.Context(), debit("b"), g.run); !errors.Is(err, dedup.ErrInProgress) {
			t.Errorf("one too many for the store: %v", err)
		}
		if d := time.Since(begin); d > 0 {
			t.Errorf("they waited for %v", d)
		}
		for range 3 {
			g.let <- dedup.Outcome{}
		}
		for _, c := range append(calls, there2) {
			if r := <-c; r.err != nil {
				t.Error(r.err)
			}
		}
		calls = nil
		for range 4 {
			calls = append(calls, start(t.Context(), e, debit("c"), g.run))
		}
		g.let <- dedup.Outcome{}
		for _, c := range calls {
			if r := <-c; r.err != nil {
				t.Errorf("the places were not given back: %v", r.err)
			}
		}
	})
}

func TestAClaimOfADeadProcessIsTakenOverAfterItsLease(t *testing.T) {
	for _, polls := range []bool{false, true} {
		t.Run(fmt.Sprintf("polls=%v", polls), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newHooked()
				var s dedup.Store = store
				if polls {
					s = mute{store}
				}
				op := debit("k")
				if a, err := store.Memory.Claim(t.Context(), dedup.ClaimRequest{Key: op.Key, Fingerprint: op.Fingerprint,
					Owner: dedup.Owner{1}, Lease: 2 * time.Second, Retention: time.Hour}); err != nil || a.State != dedup.Claimed {
					t.Fatal(a.State, err)
				}
				e := newEngine(t, s)
				begin := time.Now()
				fn, ran := counted(dedup.Outcome{})
				res, err := e.Do(t.Context(), op, fn)
				if d := time.Since(begin); err != nil || *ran != 1 || !res.Waited || d < 2*time.Second || d > 2*time.Second+pollLast {
					t.Errorf("%+v, %v, executed %d times after %v", res, err, *ran, d)
				}
			})
		})
	}
}

const pollLast = 250 * time.Millisecond

// restless wakes those who wait for nothing.
type restless struct {
	*hooked
	err   error
	waits atomic.Int64
}

func (s *restless) Wait(context.Context, dedup.Key) error {
	s.waits.Add(1)
	return s.err
}

func TestAStoreThatWakesForNothingIsNotAskedWithoutPause(t *testing.T) {
	for _, broken := range []error{nil, errors.New("connection lost")} {
		t.Run(fmt.Sprint(broken), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, g := &restless{hooked: newHooked(), err: broken}, newGate()
				first := start(t.Context(), newEngine(t, store), debit("k"), g.run)
				e := newEngine(t, store, dedup.WithWait(5*time.Second))
				if _, err := e.Do(t.Context(), debit("k"), g.run); !errors.Is(err, dedup.ErrInProgress) {
					t.Error(err)
				}
				if n := store.waits.Load(); n < 5 || n > 60 {
					t.Errorf("waited %d times in 5 s", n)
				}
				g.let <- dedup.Outcome{}
				<-first
			})
		})
	}
}

// TestCallersOfFewKeysNeverExecuteAtOnce lets the real scheduler order things.
func TestCallersOfFewKeysNeverExecuteAtOnce(t *testing.T) {
	store := newHooked()
	engines := []*dedup.Engine{newEngine(t, store), newEngine(t, store)}
	var running [4]atomic.Int64
	var executed, answered atomic.Int64
	var wg sync.WaitGroup
	for i := range 400 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if i%7 == 0 {
				time.AfterFunc(time.Duration(i)*10*time.Microsecond, cancel)
			}
			key := i % len(running)
			_, err := engines[i/4%2].Do(ctx, debit(fmt.Sprint(key)), func(context.Context) (dedup.Outcome, error) {
				if running[key].Add(1) != 1 {
					t.Error("two execute at once")
				}
				defer running[key].Add(-1)
				runtime.Gosched()
				if n := executed.Add(1); n%5 != 0 {
					return dedup.Outcome{Code: codes.Aborted}, nil
				}
				return dedup.Outcome{}, nil
			})
			if err == nil {
				answered.Add(1)
			} else if ctx.Err() == nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if answered.Load() == 0 {
		t.Error("nobody was answered")
	}
}
