package faults

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestKindsHaveNamesThatCanBeReadBack(t *testing.T) {
	for k := minKind; k <= maxKind; k++ {
		if got, ok := ParseKind(k.String()); !ok || got != k {
			t.Errorf("ParseKind(%q) = %v, %t", k, got, ok)
		}
	}
	if got := Kind(99).String(); got != "kind_99" {
		t.Errorf("an unknown kind calls itself %q", got)
	}
	if _, ok := ParseKind("kind_99"); ok {
		t.Error("an unknown kind is parsed")
	}
}

func TestAPlanTellsAllThatIsWrong(t *testing.T) {
	bad := Plan{LoseResponses: 1.5, SlowAttempts: math.NaN(), SlowBy: -1, HoldRecords: -1, HoldBy: -1, BurstEvery: 3, BurstLength: 3}
	_, err := NewInjector(bad, nil)
	if err == nil {
		t.Fatal("taken")
	}
	for _, field := range []string{"LoseResponses", "SlowAttempts", "SlowBy", "HoldRecords", "HoldBy", "BurstLength"} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
	if err := (Plan{}).Validate(); err != nil {
		t.Errorf("the zero plan: %v", err)
	}
}

// call sends n calls through an injector and returns how many were executed,
// what each answered, and the faults.
func call(t *testing.T, plan Plan, n int) (executed int, answers []codes.Code, faults map[Kind]int) {
	t.Helper()
	faults = map[Kind]int{}
	i, err := NewInjector(plan, func(k Kind) { faults[k]++ })
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		_, err := i.Intercept(t.Context(), nil, nil, func(context.Context, any) (any, error) {
			executed++
			return "done", nil
		})
		answers = append(answers, status.Code(err))
	}
	return executed, answers, faults
}

func TestNothingBreaksWithoutAPlan(t *testing.T) {
	executed, answers, faults := call(t, Plan{}, 100)
	if executed != 100 || len(faults) != 0 {
		t.Errorf("%d executed, faults %v", executed, faults)
	}
	for _, c := range answers {
		if c != codes.OK {
			t.Fatalf("answered %v", c)
		}
	}
}

func TestALostResponseComesAfterTheExecution(t *testing.T) {
	executed, answers, faults := call(t, Plan{LoseResponses: 1}, 5)
	if executed != 5 || faults[ResponseLost] != 5 {
		t.Errorf("%d executed, faults %v", executed, faults)
	}
	for _, c := range answers {
		if c != codes.Unavailable {
			t.Errorf("answered %v", c)
		}
	}
}

func TestABurstRefusesCallsInARowBeforeTheirExecution(t *testing.T) {
	executed, answers, faults := call(t, Plan{BurstEvery: 5, BurstLength: 2}, 10)
	if executed != 6 || faults[Refused] != 4 {
		t.Errorf("%d executed, faults %v", executed, faults)
	}
	for i, c := range answers {
		if refused := i%5 >= 3; refused != (c == codes.Unavailable) {
			t.Errorf("call %d answered %v", i, c)
		}
	}
}

func TestTheShareOfFaultsIsThePlans(t *testing.T) {
	_, _, faults := call(t, Plan{LoseResponses: 0.1, Seed: 1}, 10_000)
	if n := faults[ResponseLost]; n < 800 || n > 1200 {
		t.Errorf("%d of 10,000 responses lost, want about 1,000", n)
	}
}

func TestASlowedCallOutlastsItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		executed := 0
		i, err := NewInjector(Plan{SlowAttempts: 1, SlowBy: time.Second}, nil)
		if err != nil {
			t.Fatal(err)
		}
		const n = 40
		for range n {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			start := time.Now()
			_, err := i.Intercept(ctx, nil, nil, func(context.Context, any) (any, error) { executed++; return nil, nil })
			cancel()
			if status.Code(err) != codes.DeadlineExceeded || time.Since(start) != 100*time.Millisecond {
				t.Errorf("answered %v after %v", err, time.Since(start))
			}
		}
		if executed == 0 || executed == n {
			t.Errorf("%d of %d executed: slowing should come before some and after others", executed, n)
		}
	})
}

func TestAnExecutionIsHeldUpWhenItIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done, held := false, 0
		i, err := NewInjector(Plan{HoldRecords: 1, HoldBy: time.Second}, func(k Kind) {
			if k != Held || !done {
				t.Errorf("%v, done: %t", k, done)
			}
			held++
		})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		res, err := i.Hold(t.Context(), nil, nil, func(context.Context, any) (any, error) { done = true; return "done", nil })
		if res != "done" || err != nil || held != 1 || time.Since(start) != time.Second {
			t.Errorf("answered %v, %v, held %d times, after %v", res, err, held, time.Since(start))
		}
		refused := errors.New("refused")
		if _, err := i.Hold(t.Context(), nil, nil, func(context.Context, any) (any, error) { return nil, refused }); err != refused || held != 1 {
			t.Errorf("answered %v, held %d times", err, held)
		}
	})
}

func TestAHandlersErrorIsNotTouched(t *testing.T) {
	i, err := NewInjector(Plan{LoseResponses: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := errors.New("the handler's own")
	if _, err := i.Intercept(t.Context(), nil, nil, func(context.Context, any) (any, error) { return nil, want }); err != want {
		t.Errorf("answered %v", err)
	}
}

// echo is a server that sends back what it gets, and counts its connections.
func echo(t *testing.T) (addr string, accepted *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted = &atomic.Int32{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			go func() { defer c.Close(); _, _ = io.Copy(c, c) }()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String(), accepted
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

func roundTrip(c net.Conn) error {
	if _, err := c.Write([]byte("ping")); err != nil {
		return err
	}
	b := make([]byte, 4)
	if _, err := io.ReadFull(c, b); err != nil {
		return err
	}
	if string(b) != "ping" {
		return errors.New("came back as " + string(b))
	}
	return nil
}

func newProxy(t *testing.T, upstream string) *Proxy {
	t.Helper()
	p, err := NewProxy(upstream)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestTheProxyPassesAndCuts(t *testing.T) {
	addr, accepted := echo(t)
	p := newProxy(t, addr)
	if p.Cut() {
		t.Error("cut a connection where there is none")
	}
	c := dial(t, p.Addr())
	if err := roundTrip(c); err != nil {
		t.Fatal(err)
	}
	if !p.Cut() {
		t.Fatal("nothing to cut")
	}
	if err := roundTrip(c); err == nil {
		t.Error("the connection lives on")
	}
	if err := roundTrip(dial(t, p.Addr())); err != nil {
		t.Errorf("after a cut: %v", err)
	}
	if n := accepted.Load(); n != 2 {
		t.Errorf("%d connections reached the server, want 2", n)
	}
}

func TestAClientLearnsThatTheServerIsGone(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	if err := roundTrip(dial(t, newProxy(t, addr).Addr())); err == nil {
		t.Error("nobody there, and an answer")
	}
}

func TestCloseEndsConnectionsAndMayBeRepeated(t *testing.T) {
	addr, _ := echo(t)
	p := newProxy(t, addr)
	c := dial(t, p.Addr())
	if err := roundTrip(c); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := roundTrip(c); err == nil {
		t.Error("the connection lives on")
	}
}
