package dedup_test

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/retrysafe/retrysafe/dedup"
)

// counted returns a handler that answers out, and how often it has run.
func counted(out dedup.Outcome) (func(context.Context) (dedup.Outcome, error), *int) {
	n := new(int)
	return func(context.Context) (dedup.Outcome, error) {
		*n++
		return out, nil
	}, n
}

func TestAnOperationIsExecutedOnceAndReplayed(t *testing.T) {
	for name, out := range map[string]dedup.Outcome{
		"empty":    {},
		"response": {Response: response, Header: map[string][]string{"a-bin": {"\x00", ""}}, Trailer: map[string][]string{"b": {"1"}}},
		"error":    {Code: codes.NotFound, Message: "no such account", Details: []dedup.Payload{{Type: "x", Value: []byte{1}}}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, dedup.NewMemory())
			fn, ran := counted(out)
			for i := range 3 {
				res, err := e.Do(t.Context(), debit("k"), fn)
				if err != nil {
					t.Fatal(err)
				}
				want := dedup.Result{Outcome: out, Replayed: i > 0}
				if !reflect.DeepEqual(res, want) {
					t.Errorf("call %d: got %+v, want %+v", i, res, want)
				}
			}
			if *ran != 1 {
				t.Errorf("executed %d times", *ran)
			}
		})
	}
}

func TestAnotherMethodOrScopeIsAnotherOperation(t *testing.T) {
	e := newEngine(t, dedup.NewMemory())
	fn, ran := counted(dedup.Outcome{})
	for _, key := range []dedup.Key{
		{Scope: "a", Method: "m", ID: "k"}, {Scope: "b", Method: "m", ID: "k"},
		{Scope: "a", Method: "n", ID: "k"}, {Scope: "a", Method: "m", ID: "l"},
		{Scope: "am", Method: "", ID: "k"}, {Scope: "", Method: "am", ID: "k"},
	} {
		if res, err := e.Do(t.Context(), dedup.Operation{Key: key}, fn); err != nil || res.Replayed {
			t.Errorf("%#v: %+v, %v", key, res, err)
		}
	}
	if *ran != 6 {
		t.Errorf("executed %d times", *ran)
	}
}

func TestAKeyThatComesBackWithAnotherRequestIsRefused(t *testing.T) {
	e := newEngine(t, dedup.NewMemory())
	fn, ran := counted(dedup.Outcome{})
	op := debit("k")
	op.Fingerprint = dedup.FingerprintBytes([]byte("a"))
	if _, err := e.Do(t.Context(), op, fn); err != nil {
		t.Fatal(err)
	}
	op.Fingerprint = dedup.FingerprintBytes([]byte("b"))
	if _, err := e.Do(t.Context(), op, fn); !errors.Is(err, dedup.ErrKeyReused) {
		t.Errorf("another request: %v", err)
	}
	op.Fingerprint = dedup.Fingerprint{Version: dedup.FingerprintProto}
	if _, err := e.Do(t.Context(), op, fn); !errors.Is(err, dedup.ErrRecordUnreadable) {
		t.Errorf("a fingerprint of another version: %v", err)
	}
	if *ran != 1 {
		t.Errorf("executed %d times", *ran)
	}
}

// after says what follows an answer of each class in a store of leases.
type after struct{ replayed, executedAtOnce bool }

func TestWhatFollowsAnAnswer(t *testing.T) {
	terminal, noEffect, uncertain := after{replayed: true}, after{executedAtOnce: true}, after{}
	settle := func(c dedup.Class, out dedup.Outcome, err error) func(context.Context) (dedup.Outcome, error) {
		return func(ctx context.Context) (dedup.Outcome, error) {
			ex, _ := dedup.ExecutionFromContext(ctx)
			ex.Settle(c)
			return out, err
		}
	}
	code := func(c codes.Code) func(context.Context) (dedup.Outcome, error) {
		return func(context.Context) (dedup.Outcome, error) { return dedup.Outcome{Code: c}, nil }
	}
	fails := func(err error) func(context.Context) (dedup.Outcome, error) {
		return func(context.Context) (dedup.Outcome, error) { return dedup.Outcome{}, err }
	}
	for name, tt := range map[string]struct {
		fn   func(context.Context) (dedup.Outcome, error)
		want after
	}{
		"OK":                            {code(codes.OK), terminal},
		"NOT_FOUND":                     {code(codes.NotFound), terminal},
		"UNAVAILABLE":                   {code(codes.Unavailable), noEffect},
		"INTERNAL":                      {code(codes.Internal), uncertain},
		"a code that does not exist":    {code(99), uncertain},
		"an error":                      {fails(errors.New("broken")), uncertain},
		"an error without effect":       {fails(errors.Join(errors.New("broken"), dedup.ErrNoEffect)), noEffect},
		"UNAVAILABLE settled terminal":  {settle(dedup.Terminal, dedup.Outcome{Code: codes.Unavailable}, nil), terminal},
		"INTERNAL settled no effect":    {settle(dedup.NoEffect, dedup.Outcome{Code: codes.Internal}, nil), noEffect},
		"OK settled uncertain":          {settle(dedup.Uncertain, dedup.Outcome{}, nil), uncertain},
		"an error settled terminal":     {settle(dedup.Terminal, dedup.Outcome{}, errors.New("broken")), uncertain},
		"an error settled no effect":    {settle(dedup.NoEffect, dedup.Outcome{}, errors.New("broken")), noEffect},
		"OK settled by no such class":   {settle(77, dedup.Outcome{}, nil), uncertain},
		"OK settled and taken back":     {settle(0, dedup.Outcome{}, nil), terminal},
		"no effect settled to be known": {settle(dedup.Uncertain, dedup.Outcome{}, dedup.ErrNoEffect), uncertain},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEngine(t, dedup.NewMemory(), dedup.WithLease(time.Minute), dedup.WithWait(time.Second))
				first, err := e.Do(t.Context(), debit("k"), tt.fn)
				wantOut, wantErr := tt.fn(contextOfNothing(t))
				if !errors.Is(err, wantErr) || !reflect.DeepEqual(first.Outcome, wantOut) {
					t.Errorf("the caller got %+v, %v", first, err)
				}
				again, ran := counted(dedup.Outcome{})
				res, err := e.Do(t.Context(), debit("k"), again)
				got := after{replayed: res.Replayed, executedAtOnce: *ran == 1}
				if got != tt.want {
					t.Fatalf("then %+v, %v; want %+v", got, err, tt.want)
				}
				if got != uncertain {
					return
				}
				if !errors.Is(err, dedup.ErrInProgress) {
					t.Errorf("while the claim is held: %v", err)
				}
				time.Sleep(time.Minute)
				rejected := debit("k")
				rejected.OnUnknown = dedup.Reject
				if _, err := e.Do(t.Context(), rejected, again); !errors.Is(err, dedup.ErrOutcomeUnknown) || *ran != 0 {
					t.Errorf("under Reject: %v, executed %d times", err, *ran)
				}
				if _, err := e.Do(t.Context(), debit("k"), again); err != nil || *ran != 1 {
					t.Errorf("under Reexecute: %v, executed %d times", err, *ran)
				}
			})
		})
	}
}

// contextOfNothing has an execution that belongs to nothing else.
func contextOfNothing(t *testing.T) (ctx context.Context) {
	e := newEngine(t, dedup.NewMemory())
	if _, err := e.Do(t.Context(), debit("nothing"), func(c context.Context) (dedup.Outcome, error) {
		ctx = c
		return dedup.Outcome{}, nil
	}); err != nil {
		t.Fatal(err)
	}
	return ctx
}

func TestAPanicGoesOnAndIsUncertain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, dedup.NewMemory(), dedup.WithWait(time.Second))
		stack := func() (stack string) {
			defer func() {
				if v := recover(); v != "broken" {
					t.Errorf("recovered %v", v)
				}
				buf := make([]byte, 1<<16)
				stack = string(buf[:runtime.Stack(buf, false)])
			}()
			_, _ = e.Do(t.Context(), debit("k"), breaks)
			return ""
		}()
		if !strings.Contains(stack, "dedup_test.breaks") {
			t.Errorf("the stack of the panic is lost:\n%s", stack)
		}
		again, ran := counted(dedup.Outcome{})
		if _, err := e.Do(t.Context(), debit("k"), again); !errors.Is(err, dedup.ErrInProgress) {
			t.Errorf("while the claim is held: %v", err)
		}
		time.Sleep(dedup.DefaultLease)
		if _, err := e.Do(t.Context(), debit("k"), again); err != nil || *ran != 1 {
			t.Errorf("after the lease: %v, executed %d times", err, *ran)
		}
	})
}

func breaks(ctx context.Context) (dedup.Outcome, error) {
	ex, _ := dedup.ExecutionFromContext(ctx)
	ex.Settle(dedup.NoEffect) // does not count: it said so before it knew
	panic("broken")
}

func TestAHandlerThatEndsItsGoroutineIsUncertain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, dedup.NewMemory(), dedup.WithWait(time.Second))
		go func() {
			_, _ = e.Do(t.Context(), debit("k"), func(context.Context) (dedup.Outcome, error) {
				runtime.Goexit()
				return dedup.Outcome{}, nil
			})
		}()
		synctest.Wait()
		fn, ran := counted(dedup.Outcome{})
		if _, err := e.Do(t.Context(), debit("k"), fn); !errors.Is(err, dedup.ErrInProgress) || *ran != 0 {
			t.Errorf("%v, executed %d times", err, *ran)
		}
	})
}

func TestAHandlerDoesNotEndWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type valueKey struct{}
		e := newEngine(t, dedup.NewMemory())
		ctx, cancel := context.WithTimeoutCause(context.WithValue(t.Context(), valueKey{}, 7), time.Second, errors.New("caller's"))
		defer cancel()
		res, err := e.Do(ctx, debit("k"), func(ctx context.Context) (dedup.Outcome, error) {
			time.Sleep(2 * time.Second)
			if err := ctx.Err(); err != nil {
				t.Errorf("the handler's context ended: %v", err)
			}
			if cause := context.Cause(ctx); cause != nil {
				t.Errorf("the handler's context has a cause: %v", cause)
			}
			if ctx.Value(valueKey{}) != 7 {
				t.Error("the caller's value is lost")
			}
			if d, ok := ctx.Deadline(); !ok || time.Until(d) != dedup.DefaultMaxExecution-2*time.Second {
				t.Errorf("deadline %v, %v", d, ok)
			}
			return dedup.Outcome{Message: "done"}, nil
		})
		if err != nil || res.Outcome.Message != "done" {
			t.Fatalf("%+v, %v", res, err)
		}
		if res, err := e.Do(t.Context(), debit("k"), nil); err != nil || !res.Replayed || res.Outcome.Message != "done" {
			t.Errorf("repeat: %+v, %v", res, err)
		}
	})
}

func TestMaxExecutionEndsTheContextAndWhatIsAnsweredCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, dedup.NewMemory(), dedup.WithMaxExecution(time.Hour))
		op := debit("k")
		op.MaxExecution = 3 * time.Second
		started := time.Now()
		res, err := e.Do(t.Context(), op, func(ctx context.Context) (dedup.Outcome, error) {
			<-ctx.Done()
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				t.Errorf("ended with %v", ctx.Err())
			}
			return dedup.Outcome{Message: "late"}, nil
		})
		if d := time.Since(started); err != nil || d != 3*time.Second {
			t.Fatalf("%+v, %v after %v", res, err, d)
		}
		if res, err := e.Do(t.Context(), op, nil); err != nil || res.Outcome.Message != "late" {
			t.Errorf("repeat: %+v, %v", res, err)
		}
	})
}

func TestTheHandlersContextEndsWithDo(t *testing.T) {
	ctx := contextOfNothing(t)
	if !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("after Do: %v", ctx.Err())
	}
	select {
	case <-ctx.Done():
	default:
		t.Error("after Do it is not done")
	}
}

func TestExecutionTellsFenceAndAttempt(t *testing.T) {
	e := newEngine(t, dedup.NewMemory())
	var fence uint64
	for attempt := 1; attempt <= 3; attempt++ {
		_, err := e.Do(t.Context(), debit("k"), func(ctx context.Context) (dedup.Outcome, error) {
			ex, ok := dedup.ExecutionFromContext(ctx)
			if !ok || ex.Attempt() != attempt || ex.Fence() <= fence {
				t.Errorf("attempt %d: %v, attempt %d, fence %d after %d", attempt, ok, ex.Attempt(), ex.Fence(), fence)
			}
			fence = ex.Fence()
			return dedup.Outcome{Code: codes.Unavailable}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := dedup.ExecutionFromContext(t.Context()); ok {
		t.Error("an execution out of nothing")
	}
}

func TestNestedOperations(t *testing.T) {
	store := dedup.NewMemory()
	e, sister := newEngine(t, store), newEngine(t, store)
	stranger := newEngine(t, dedup.NewMemory())
	inner, ran := counted(dedup.Outcome{Message: "inner"})
	_, err := e.Do(t.Context(), debit("outer"), func(ctx context.Context) (dedup.Outcome, error) {
		if _, err := e.Do(ctx, debit("outer"), inner); !errors.Is(err, dedup.ErrNested) {
			t.Errorf("itself: %v", err)
		}
		if _, err := sister.Do(ctx, debit("outer"), inner); !errors.Is(err, dedup.ErrNested) {
			t.Errorf("itself, by another engine: %v", err)
		}
		if _, err := dedup.Do(ctx, store, debit("outer"), inner); !errors.Is(err, dedup.ErrNested) {
			t.Errorf("itself, by an engine of the call's: %v", err)
		}
		if *ran != 0 {
			t.Errorf("executed %d times", *ran)
		}
		if _, err := stranger.Do(ctx, debit("outer"), inner); err != nil {
			t.Errorf("in another store: %v", err)
		}
		res, err := e.Do(ctx, debit("inner"), func(ctx context.Context) (dedup.Outcome, error) {
			if _, err := e.Do(ctx, debit("outer"), inner); !errors.Is(err, dedup.ErrNested) {
				t.Errorf("itself, by what it has called: %v", err)
			}
			return inner(ctx)
		})
		return res.Outcome, err
	})
	if err != nil || *ran != 2 {
		t.Errorf("%v, executed %d times", err, *ran)
	}
}

func TestMistakesAreReportedAllAtOnce(t *testing.T) {
	_, err := dedup.NewEngine(nil, nil,
		dedup.WithRetention(-1), dedup.WithLease(-time.Second), dedup.WithMaxExecution(-1), dedup.WithWait(-1),
		dedup.WithMaxWaiters(-1), dedup.WithMaxOutcome(-1), dedup.WithStoreTimeout(-1))
	for _, name := range []string{"store", "WithRetention", "WithLease: -1s is negative", "WithMaxExecution", "WithWait",
		"WithMaxWaiters", "WithMaxOutcome", "WithStoreTimeout"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named in: %v", name, err)
		}
	}
	_, err = dedup.NewEngine((*dedup.Memory)(nil), dedup.WithRetention(1), dedup.WithLease(time.Millisecond-1))
	for _, name := range []string{"store is nil", "WithRetention: 1ns is less than 1ms", "WithLease: 999.999µs is less than 1ms"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named in: %v", name, err)
		}
	}
	store := newHooked()
	e := newEngine(t, store)
	fn, ran := counted(dedup.Outcome{})
	_, err = e.Do(t.Context(), dedup.Operation{Key: debit("k").Key, Retention: 1, Lease: 1}, fn)
	for _, name := range []string{"Operation.Retention: 1ns", "Operation.Lease: 1ns"} {
		if err == nil || !strings.Contains(err.Error(), name) || errors.Is(err, dedup.ErrStoreUnavailable) {
			t.Errorf("%s is not named in: %v", name, err)
		}
	}
	_, err = e.Do(t.Context(), dedup.Operation{Retention: -1, Lease: -1, MaxExecution: -1, OnUnknown: 9}, fn)
	for _, name := range []string{"Key.ID", "Retention", "Lease", "MaxExecution", "unknown_policy_9"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named in: %v", name, err)
		}
	}
	if !errors.Is(err, dedup.ErrNoKey) || *ran != 0 || store.claims.Load() != 0 {
		t.Errorf("%v; executed %d times after %d claims", err, *ran, store.claims.Load())
	}
}

func TestACallerThatIsGoneChangesNothing(t *testing.T) {
	store := newHooked()
	e := newEngine(t, store)
	fn, ran := counted(dedup.Outcome{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Do(ctx, debit("k"), fn); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if *ran != 0 || store.claims.Load() != 0 {
		t.Errorf("executed %d times after %d claims", *ran, store.claims.Load())
	}
}

func TestARecordThatCannotBeReadIsNotExecutedAgain(t *testing.T) {
	store := dedup.NewMemory()
	e := newEngine(t, store)
	for name, record := range map[string][]byte{"empty": {}, "nil": nil, "damaged": []byte("not a record")} {
		t.Run(name, func(t *testing.T) {
			op := debit(name)
			answer, err := store.Claim(t.Context(), dedup.ClaimRequest{
				Key: op.Key, Fingerprint: op.Fingerprint, Lease: time.Minute, Retention: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			if err := answer.Claim.Complete(t.Context(), dedup.Completion{Record: record, Retention: time.Hour}); err != nil {
				t.Fatal(err)
			}
			fn, ran := counted(dedup.Outcome{})
			if _, err := e.Do(t.Context(), op, fn); !errors.Is(err, dedup.ErrRecordUnreadable) || *ran != 0 {
				t.Errorf("%v, executed %d times", err, *ran)
			}
		})
	}
}

func TestOutcomesAreForgottenAfterTheirRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, dedup.NewMemory(), dedup.WithRetention(time.Hour))
		fn, ran := counted(dedup.Outcome{})
		for _, step := range []struct {
			wait time.Duration
			want int
		}{{0, 1}, {time.Hour - 1, 1}, {1, 2}, {0, 2}} {
			time.Sleep(step.wait)
			if _, err := e.Do(t.Context(), debit("k"), fn); err != nil || *ran != step.want {
				t.Errorf("after %v more: %v, executed %d times, want %d", step.wait, err, *ran, step.want)
			}
		}
	})
}
