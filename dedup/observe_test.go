package dedup_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/retrysafe/retrysafe/dedup"
)

// tally is an observer that counts.
type tally struct {
	mu         sync.Mutex
	operations map[string]int
	calls      map[string]int
	held       int
	unrecorded int
}

func (c *tally) observer() dedup.Observer {
	c.operations, c.calls = map[string]int{}, map[string]int{}
	return dedup.Observer{
		Operation: func(_ context.Context, _ string, d dedup.Disposition, _ time.Duration) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.operations[d.String()]++
		},
		StoreCall: func(_ context.Context, method string, call dedup.StoreCall, _ time.Duration, err error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			name := call.String()
			if err != nil {
				name += " failed"
			}
			c.calls[name]++
		},
		Held: func(_ context.Context, _ string, delta int) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.held += delta
		},
		Unrecorded: func(context.Context, string) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.unrecorded++
		},
	}
}

func TestTheObserverIsToldOfEveryCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen tally
		store := newHooked()
		e := newEngine(t, store, dedup.WithObserver(seen.observer()), dedup.WithWait(time.Second))
		ctx := t.Context()
		do := func(op dedup.Operation, fn func(context.Context) (dedup.Outcome, error)) {
			defer func() { _ = recover() }()
			_, _ = e.Do(ctx, op, fn)
		}
		do(debit("a"), done) // executed
		do(debit("a"), done) // replayed
		other := debit("a")
		other.Fingerprint.Sum[0]++
		do(other, done)             // reused
		do(dedup.Operation{}, done) // failed: no key

		g := newGate()
		first := start(ctx, e, debit("b"), g.run)
		second := start(ctx, e, debit("b"), g.run)
		if seen.held != 1 {
			t.Errorf("%d claims are held", seen.held)
		}
		g.let <- dedup.Outcome{}
		<-first  // executed
		<-second // waited

		do(debit("c"), breaks) // executed
		do(debit("c"), done)   // in progress
		time.Sleep(dedup.DefaultLease)
		rejected := debit("c")
		rejected.OnUnknown = dedup.Reject
		do(rejected, done) // unknown

		gone, cancel := context.WithCancel(ctx)
		cancel()
		_, _ = e.Do(gone, debit("d"), done) // cancelled

		do(debit("e"), func(context.Context) (dedup.Outcome, error) { // executed
			return dedup.Outcome{Code: codes.Unavailable}, dedup.ErrKeyReused // some other engine's
		})
		store.onComplete = func(context.Context, dedup.Completion, func() error) error { return dedup.ErrLeaseLost }
		do(debit("f"), done) // executed, unrecorded
		store.onClaim = func(context.Context, dedup.ClaimRequest, func() (dedup.Answer, error)) (dedup.Answer, error) {
			return dedup.Answer{}, errDown
		}
		do(debit("g"), done) // failed

		wantOps := map[string]int{"executed": 5, "replayed": 1, "waited": 1, "reused": 1, "in_progress": 1, "unknown": 1, "cancelled": 1, "failed": 2}
		if !maps.Equal(seen.operations, wantOps) {
			t.Errorf("operations: %v\n want %v", seen.operations, wantOps)
		}
		wantCalls := map[string]int{"claim": 9, "claim failed": 2, "complete": 2, "complete failed": 1, "wait failed": 1}
		if !maps.Equal(seen.calls, wantCalls) {
			t.Errorf("calls: %v\n want %v", seen.calls, wantCalls)
		}
		if seen.held != 0 || seen.unrecorded != 1 {
			t.Errorf("%d claims are held, %d outcomes unrecorded", seen.held, seen.unrecorded)
		}
	})
}

func TestTheLogNamesOperationsByADigest(t *testing.T) {
	const secret = "order-42-of-a-customer"
	digests := map[string]bool{}
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			store := newHooked()
			store.onComplete = func(context.Context, dedup.Completion, func() error) error { return errDown }
			store.onRelease = func(context.Context, func() error) error { return errDown }
			store.onRenew = func(context.Context, func() error) error { return dedup.ErrLeaseLost }
			e := newEngine(t, store, dedup.WithLogger(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))))
			op := dedup.Operation{Key: dedup.Key{Scope: secret, Method: "/m.S/M", ID: secret}}
			_, err := e.Do(t.Context(), op, func(ctx context.Context) (dedup.Outcome, error) {
				<-ctx.Done()
				return dedup.Outcome{Message: secret}, nil
			})
			if err != nil {
				t.Error(err)
			}
			op.Key.ID += "2"
			_, err = e.Do(t.Context(), op, func(context.Context) (dedup.Outcome, error) {
				return dedup.Outcome{}, dedup.ErrNoEffect
			})
			if !errors.Is(err, dedup.ErrNoEffect) {
				t.Error(err)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			log := out.String()
			if strings.Contains(log, secret) {
				t.Errorf("the log has the key:\n%s", log)
			}
			for _, m := range regexp.MustCompile(`"operation":"([0-9a-f]{16})"`).FindAllStringSubmatch(log, -1) {
				digests[m[1]] = true
			}
			if n := strings.Count(log, "\n"); n != 5 {
				t.Errorf("%d lines:\n%s", n, log)
			}
		})
	}
	if len(digests) != 4 {
		t.Errorf("two keys in two engines have %d digests", len(digests))
	}
}

func TestNamesOfClosedSets(t *testing.T) {
	seen := map[string]bool{}
	for d := dedup.DispositionExecuted; d <= dedup.DispositionFailed; d++ {
		seen[d.String()] = true
	}
	for c := dedup.StoreCallClaim; c <= dedup.StoreCallRelease; c++ {
		seen[c.String()] = true
	}
	for p := dedup.Reexecute; p <= dedup.Reject; p++ {
		seen[p.String()] = true
	}
	for s := dedup.Claimed; s <= dedup.Unknown; s++ {
		seen["state "+s.String()] = true
	}
	for p := dedup.OneAtATime; p <= dedup.ExactlyOnce; p++ {
		seen[p.String()] = true
	}
	for c := dedup.Terminal; c <= dedup.Uncertain; c++ {
		seen["class "+c.String()] = true
	}
	if len(seen) != 8+5+2+5+2+3 {
		t.Errorf("names: %v", seen)
	}
	for name, s := range map[string]fmt.Stringer{
		"disposition_0": dedup.Disposition(0), "store_call_9": dedup.StoreCall(9), "unknown_policy_2": dedup.UnknownPolicy(2),
		"state_0": dedup.State(0), "promise_3": dedup.Promise(3), "class_0": dedup.Class(0),
		"v12:00000000": dedup.Fingerprint{Version: 12},
	} {
		if s.String() != name {
			t.Errorf("%q is called %q", name, s)
		}
	}
	for name := range seen {
		if regexp.MustCompile(`_\d$`).MatchString(name) {
			t.Errorf("%q has no name", name)
		}
	}
}

func TestEveryCodeHasItsClass(t *testing.T) {
	want := map[codes.Code]dedup.Class{
		codes.OK: dedup.Terminal, codes.InvalidArgument: dedup.Terminal, codes.NotFound: dedup.Terminal,
		codes.AlreadyExists: dedup.Terminal, codes.FailedPrecondition: dedup.Terminal, codes.OutOfRange: dedup.Terminal,
		codes.Unauthenticated: dedup.NoEffect, codes.PermissionDenied: dedup.NoEffect, codes.Unimplemented: dedup.NoEffect,
		codes.ResourceExhausted: dedup.NoEffect, codes.Unavailable: dedup.NoEffect, codes.Aborted: dedup.NoEffect,
		codes.Internal: dedup.Uncertain, codes.Unknown: dedup.Uncertain, codes.DataLoss: dedup.Uncertain,
		codes.Canceled: dedup.Uncertain, codes.DeadlineExceeded: dedup.Uncertain,
	}
	for c := range codes.Code(17) {
		if got := dedup.Classify(c); got != want[c] {
			t.Errorf("%v is %v, want %v", c, got, want[c])
		}
	}
	if got := dedup.Classify(17); got != dedup.Uncertain {
		t.Errorf("a code that does not exist is %v", got)
	}
}

func TestAKeyDoesNotShowItself(t *testing.T) {
	key := dedup.Key{Scope: "secret-scope", Method: "/m.S/M", ID: "secret-id"}
	var out bytes.Buffer
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "key", key)
	for _, s := range []string{fmt.Sprint(key), fmt.Sprintf("%v %+v %#v %s %q", key, key, key, key, key),
		fmt.Sprintf("%v %+v", &key, &key), out.String()} {
		if strings.Contains(s, "secret") || !strings.Contains(s, "/m.S/M") {
			t.Error(s)
		}
	}
}

// TestAnExecutionDoesNotShowItsKey prints it, and the context that has it, as a
// handler's log might.
func TestAnExecutionDoesNotShowItsKey(t *testing.T) {
	e := newEngine(t, dedup.NewMemory())
	op := dedup.Operation{Key: dedup.Key{Scope: "secret-scope", Method: "/m.S/M", ID: "secret-id"}}
	_, err := e.Do(t.Context(), op, func(ctx context.Context) (dedup.Outcome, error) {
		ex, _ := dedup.ExecutionFromContext(ctx)
		var out bytes.Buffer
		for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
			slog.New(h).Info("x", "execution", ex, "value", *ex, "ctx", ctx)
		}
		for _, v := range []any{ex, ctx, context.WithoutCancel(ctx)} {
			fmt.Fprintf(&out, "%v %+v %#v %s %q\n", v, v, v, v, v)
		}
		fmt.Fprintf(&out, "%v %+v %#v\n", *ex, *ex, *ex)
		if strings.Contains(out.String(), "secret") {
			t.Error(out.String())
		}
		if s := fmt.Sprintf("%v %#v", ex, ex); s != "/m.S/M dedup.Execution{Method:/m.S/M}" {
			t.Error(s)
		}
		return dedup.Outcome{}, nil
	})
	if err != nil {
		t.Error(err)
	}
}
