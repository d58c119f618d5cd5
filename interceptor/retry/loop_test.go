package retry_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrysafe/retrysafe/interceptor/retry"
)

// steady waits exactly 100 ms, 200 ms, 400 ms, ... up to a second.
func steady(attempts int) retry.Policy {
	return retry.Policy{MaxAttempts: attempts, Backoff: retry.Backoff{
		Base: 100 * time.Millisecond, Cap: time.Second, Multiplier: 2, Jitter: retry.JitterNone,
	}}
}

func TestWhichAnswersAreRetried(t *testing.T) {
	internal := status.Error(codes.Internal, "broken")
	for _, tt := range []struct {
		name    string
		answers []error
		codes   []codes.Code
		calls   int
		code    codes.Code
	}{
		{name: "a success at once", answers: []error{nil}, calls: 1},
		{name: "UNAVAILABLE", answers: []error{errDown, nil}, calls: 2},
		{name: "DEADLINE_EXCEEDED of the server", answers: []error{errSlow, nil}, calls: 2},
		{name: "three attempts by default", answers: []error{errDown}, calls: 3, code: codes.Unavailable},
		{name: "an outcome that the server decided", answers: []error{errAbsent}, calls: 1, code: codes.NotFound},
		{name: "such an outcome of a later attempt", answers: []error{errDown, errAbsent}, calls: 2, code: codes.NotFound},
		{name: "a code that the policy names", answers: []error{internal, nil}, codes: []codes.Code{codes.Internal}, calls: 2},
		{name: "a code that the policy does not name", answers: []error{errDown}, codes: []codes.Code{codes.Internal}, calls: 1, code: codes.Unavailable},
		{name: "a bare context error of an interceptor below", answers: []error{context.DeadlineExceeded, nil}, calls: 2},
		{name: "an error that is no status", answers: []error{errors.New("broken")}, calls: 1, code: codes.Unknown},
		{name: "a status within an error", answers: []error{fmt.Errorf("below: %w", errDown), nil}, calls: 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := answering(tt.answers...)
				err := newClient(t, s, retry.WithPolicy(retry.Policy{Codes: tt.codes})).call(t.Context())
				wantCalls(t, s, tt.calls)
				wantCode(t, err, tt.code)
			})
		})
	}
}

func TestAnAnswerThatIsNotRetriedComesUntouched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, answers := range [][]error{{errAbsent}, {errDown, errAbsent}} {
			if err := newClient(t, answering(answers...)).call(t.Context()); err != errAbsent {
				t.Errorf("error is %v, want the server's own", err)
			}
		}
	})
}

func TestAnExhaustedErrorTellsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		detailed, err := status.New(codes.Unavailable, "down").WithDetails(&errdetails.ErrorInfo{Reason: "MAINTENANCE"})
		if err != nil {
			t.Fatal(err)
		}
		last := detailed.Err()
		err = newClient(t, answering(errDown, last), retry.WithPolicy(steady(3))).call(t.Context())
		ex := exhausted(t, err, retry.ReasonMaxAttempts)
		if ex.Attempts != 3 || ex.Method != method || ex.Waited != 300*time.Millisecond {
			t.Errorf("%+v", *ex)
		}
		if !errors.Is(err, last) || errors.Unwrap(err) != last {
			t.Error("the last attempt's error is not found")
		}
		st := status.Convert(err)
		if st.Code() != codes.Unavailable || st.Message() != "down" || len(st.Details()) != 1 {
			t.Errorf("status is %v with %d details", st, len(st.Details()))
		}
		want := "retry: /test.v1.Test/Call: MAX_ATTEMPTS after 3 attempts: rpc error: code = Unavailable desc = down"
		if err.Error() != want {
			t.Errorf("message is %q, want %q", err, want)
		}
	})
}

func TestWaitsGrowToTheCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := answering(errDown)
		_ = newClient(t, s, retry.WithPolicy(steady(7))).call(t.Context())
		var want []time.Duration
		for _, ms := range []int{100, 200, 400, 800, 1000, 1000} {
			want = append(want, time.Duration(ms)*time.Millisecond)
		}
		if got := s.waits(); !slices.Equal(got, want) {
			t.Errorf("waits are %v, want %v", got, want)
		}
	})
}

func TestAnUnsafeCallGoesOutOnceAndUnchanged(t *testing.T) {
	s := answering(errDown)
	err := client{t, newInterceptor(t), s}.call(t.Context())
	wantCalls(t, s, 1)
	wantCode(t, err, codes.Unavailable)
	ex := exhausted(t, err, retry.ReasonNotRetrySafe)
	if ex.Reason.BudgetExhausted() || ex.IdempotencyKey() != "" {
		t.Errorf("%+v says that a budget ran out or a key was sent", *ex)
	}
	if s.attempts[0].ctx != t.Context() || len(s.attempts[0].options) != 0 {
		t.Error("the call was changed")
	}
}

func TestNoWaitIsBegunThatDoesNotFit(t *testing.T) {
	for _, tt := range []struct {
		name     string
		took     time.Duration // by each attempt
		deadline time.Duration
		calls    int
		elapsed  time.Duration
	}{
		{"a wait as long as the deadline", 0, 100 * time.Millisecond, 1, 0},
		{"a wait that fits", 0, 101 * time.Millisecond, 2, 100 * time.Millisecond},
		{"the second wait does not fit", 0, 250 * time.Millisecond, 2, 100 * time.Millisecond},
		{"a wait that leaves no time for an attempt", 40 * time.Millisecond, 180 * time.Millisecond, 1, 40 * time.Millisecond},
		{"a wait that leaves time for an attempt", 40 * time.Millisecond, 181 * time.Millisecond, 2, 180 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{answer: func(int, seen, *wrapperspb.StringValue) error {
					time.Sleep(tt.took)
					return errDown
				}}
				ctx, cancel := context.WithTimeout(t.Context(), tt.deadline)
				defer cancel()
				start := time.Now()
				err := newClient(t, s, retry.WithPolicy(steady(9))).call(ctx)
				wantCalls(t, s, tt.calls)
				exhausted(t, err, retry.ReasonDeadline)
				wantCode(t, err, codes.Unavailable) // the server's answer, not the clock's
				if got := time.Since(start); got != tt.elapsed {
					t.Errorf("returned after %v, want %v", got, tt.elapsed)
				}
			})
		})
	}
}

func TestAnAttemptIsTakenToNeedAsLongAsTheQuickest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answer: func(n int, _ seen, _ *wrapperspb.StringValue) error {
			if n == 1 {
				time.Sleep(290 * time.Millisecond)
			}
			time.Sleep(10 * time.Millisecond)
			return errDown
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 750*time.Millisecond)
		defer cancel()
		// At 410 ms the wait of 200 ms leaves 140 ms: too few for an attempt like
		// the first, enough for one like the second.
		exhausted(t, newClient(t, s, retry.WithPolicy(steady(9))).call(ctx), retry.ReasonDeadline)
		wantCalls(t, s, 3)
	})
}

func TestMaxElapsedBoundsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := steady(9)
		p.MaxElapsed = 250 * time.Millisecond
		s := answering(errDown)
		err := newClient(t, s, retry.WithPolicy(p)).call(t.Context())
		wantCalls(t, s, 2)
		exhausted(t, err, retry.ReasonMaxElapsed)
		wantCode(t, err, codes.Unavailable)
	})
}

func TestTheEarlierOfMaxElapsedAndTheDeadlineEndsTheCall(t *testing.T) {
	for _, tt := range []struct {
		name                 string
		maxElapsed, deadline time.Duration
		reason               retry.Reason
	}{
		{"the deadline", time.Hour, 250 * time.Millisecond, retry.ReasonDeadline},
		{"MaxElapsed", 250 * time.Millisecond, time.Hour, retry.ReasonMaxElapsed},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), tt.deadline)
			defer cancel()
			p := steady(9)
			p.MaxElapsed = tt.maxElapsed
			s := answering(errDown)
			exhausted(t, newClient(t, s, retry.WithPolicy(p)).call(ctx), tt.reason)
			wantCalls(t, s, 2)
		})
	}
}

func TestMaxElapsedEndsAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answer: untilDone}
		start := time.Now()
		err := newClient(t, s, retry.WithPolicy(retry.Policy{MaxElapsed: time.Second})).call(t.Context())
		wantCalls(t, s, 1)
		exhausted(t, err, retry.ReasonMaxElapsed)
		wantCode(t, err, codes.DeadlineExceeded)
		if got := time.Since(start); got != time.Second {
			t.Errorf("returned after %v, want 1s", got)
		}
	})
}

// untilDone holds an attempt until its context ends, as grpc-go does where no
// answer comes.
func untilDone(_ int, s seen, _ *wrapperspb.StringValue) error {
	<-s.ctx.Done()
	return status.FromContextError(s.ctx.Err()).Err()
}

func TestWhoseDeadlinePassed(t *testing.T) {
	for _, tt := range []struct {
		name       string
		perAttempt time.Duration
		deadline   time.Duration // 0: none
		calls      int
		reason     retry.Reason
		elapsed    time.Duration
	}{
		{"an attempt's own is retried", time.Second, 0, 3, retry.ReasonMaxAttempts, 3300 * time.Millisecond},
		{"the caller's is not", 0, time.Second, 1, retry.ReasonDeadline, time.Second},
		{"a timeout longer than the deadline", 2 * time.Second, time.Second, 1, retry.ReasonDeadline, time.Second},
		{"both at the same moment", time.Second, time.Second, 1, retry.ReasonDeadline, time.Second},
		{"the second attempt meets the caller's", time.Second, 1600 * time.Millisecond, 1, retry.ReasonDeadline, time.Second},
		{"the second attempt fits", time.Second, 2101 * time.Millisecond, 2, retry.ReasonDeadline, 2100 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if tt.deadline > 0 {
					bounded, cancel := context.WithTimeout(ctx, tt.deadline)
					defer cancel()
					ctx = bounded
				}
				p := steady(3)
				p.PerAttemptTimeout = tt.perAttempt
				s := &server{answer: untilDone}
				start := time.Now()
				err := newClient(t, s, retry.WithPolicy(p)).call(ctx)
				wantCalls(t, s, tt.calls)
				exhausted(t, err, tt.reason)
				wantCode(t, err, codes.DeadlineExceeded)
				if got := time.Since(start); got != tt.elapsed {
					t.Errorf("returned after %v, want %v", got, tt.elapsed)
				}
			})
		})
	}
}

func TestAServersUnavailableAtTheCallersDeadlineIsNotRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answer: func(_ int, s seen, _ *wrapperspb.StringValue) error {
			<-s.ctx.Done()
			return errDown // not the code that a passed deadline has
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := newClient(t, s, retry.WithPolicy(immediate)).call(ctx)
		wantCalls(t, s, 1)
		exhausted(t, err, retry.ReasonDeadline)
		wantCode(t, err, codes.Unavailable)
	})
}

func TestADeadlineThatHasPassedAlready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		defer cancel()
		for _, opts := range [][]retry.Option{nil, {retry.WithPolicy(retry.Policy{PerAttemptTimeout: time.Hour, MaxElapsed: time.Hour})}} {
			s := &server{answer: untilDone}
			start := time.Now()
			err := newClient(t, s, opts...).call(ctx)
			wantCalls(t, s, 1)
			wantCode(t, err, codes.DeadlineExceeded)
			if time.Since(start) != 0 {
				t.Error("the call waited")
			}
		}
	})
}

func TestACallerWhoCancelsDuringAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("the user closed the page")
		ctx, cancel := context.WithCancelCause(t.Context())
		start := time.Now()
		time.AfterFunc(50*time.Millisecond, func() { cancel(cause) })
		s := answering(errDown)
		err := newClient(t, s, retry.WithPolicy(steady(9))).call(ctx)
		if got := time.Since(start); got != 50*time.Millisecond {
			t.Errorf("returned after %v, want at once", got)
		}
		wantCalls(t, s, 1)
		wantCode(t, err, codes.Canceled)
		for _, want := range []error{context.Canceled, cause, errDown} {
			if !errors.Is(err, want) {
				t.Errorf("%v is not found in %v", want, err)
			}
		}
		var ex *retry.ExhaustedError
		if errors.As(err, &ex) {
			t.Errorf("a cancelled call is called exhausted: %v", err)
		}
	})
}

func TestACallerWhoCancelledIsNotRetriedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := &server{answer: func(int, seen, *wrapperspb.StringValue) error {
			cancel()
			return errDown // raced with the cancellation
		}}
		err := newClient(t, s, retry.WithPolicy(immediate)).call(ctx)
		wantCalls(t, s, 1)
		wantCode(t, err, codes.Canceled)
		if !errors.Is(err, context.Canceled) || !errors.Is(err, errDown) {
			t.Errorf("error is %v", err)
		}
	})
}

func TestACallerWhoCancelledDuringTheLastAttemptIsToldSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := &server{answer: func(int, seen, *wrapperspb.StringValue) error {
			cancel()
			return errDown
		}}
		c := newClient(t, s, aTenth, retry.WithPolicy(retry.Policy{MaxAttempts: 1}))
		err := c.call(ctx)
		wantCode(t, err, codes.Canceled)
		for range 5 { // each would take one of the five tokens that retries may use
			_ = c.call(ctx)
		}
		c.server = answering(errDown, nil)
		if err := c.call(t.Context(), retry.CallPolicy(immediate)); err != nil {
			t.Errorf("calls that were cancelled took tokens: %v", err)
		}
	})
}

func TestAnUnsafeCallOfACallerWhoIsGoneFailsUntouched(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &server{answer: func(int, seen, *wrapperspb.StringValue) error {
		cancel()
		return errDown
	}}
	if err := (client{t, newInterceptor(t), s}).call(ctx); err != errDown {
		t.Errorf("error is %v", err)
	}
}

func TestACallerWhoCancelsBeforeAWaitOfZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := answering(errDown)
		c := newClient(t, s, retry.WithPolicy(immediate), retry.WithOnRetry(func(context.Context, retry.Retry) { cancel() }))
		wantCode(t, c.call(ctx), codes.Canceled)
		wantCalls(t, s, 1)
	})
}

func TestWaitsAreImmediateOnRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := answering(errDown)
		start := time.Now()
		err := newClient(t, s, retry.WithPolicy(immediate)).call(t.Context())
		wantCalls(t, s, 10)
		exhausted(t, err, retry.ReasonMaxAttempts)
		if time.Since(start) != 0 {
			t.Errorf("waited %v", time.Since(start))
		}
	})
}

func TestEveryAttemptStartsFromAResetReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answer: func(n int, _ seen, reply *wrapperspb.StringValue) error {
			if n < 3 {
				reply.Value = "stale"
				return errDown
			}
			return nil
		}}
		reply := &wrapperspb.StringValue{Value: "the caller's"}
		c := newClient(t, s)
		if err := c.intercept(t.Context(), method, nil, reply, nil, s.invoke); err != nil {
			t.Fatal(err)
		}
		if s.attempts[0].reply != "the caller's" {
			t.Error("the first attempt's reply was touched")
		}
		if s.attempts[1].reply != "" || s.attempts[2].reply != "" || reply.GetValue() != "" {
			t.Error("a later attempt's reply held stale fields")
		}
	})
}

func TestARepliesOfAnyTypeIsReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type frame struct{ payload []byte }
		var left []int
		s := func(_ context.Context, _ string, _, reply any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
			f := reply.(*frame)
			left = append(left, len(f.payload))
			f.payload = append(f.payload, "stale"...)
			return errDown
		}
		_ = newInterceptor(t, retry.WithMethodSafety("*", retry.SafetySafe))(t.Context(), method, nil, new(frame), nil, s)
		_ = newInterceptor(t, retry.WithMethodSafety("*", retry.SafetySafe))(t.Context(), method, nil, (*frame)(nil), nil, answering(errDown).invoke)
		_ = newInterceptor(t, retry.WithMethodSafety("*", retry.SafetySafe))(t.Context(), method, nil, (*wrapperspb.StringValue)(nil), nil, answering(errDown).invoke)
		_ = newInterceptor(t, retry.WithMethodSafety("*", retry.SafetySafe))(t.Context(), method, nil, nil, nil, answering(errDown).invoke)
		if !slices.Equal(left, []int{0, 0, 0}) {
			t.Errorf("attempts found %v bytes in their reply", left)
		}
	})
}

func TestHeaderAndTrailerHoldTheLastAttemptsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var header, trailer metadata.MD
		var from peer.Peer
		s := &server{answer: func(n int, s seen, _ *wrapperspb.StringValue) error {
			if n == 1 {
				s.setHeader("attempt", "1")
				s.setTrailer("attempt", "1")
				from.Addr = &net.TCPAddr{}
				return errDown
			}
			return nil // the last attempt got no stream, so grpc-go sets neither
		}}
		if err := newClient(t, s).call(t.Context(), grpc.Header(&header), grpc.Trailer(&trailer), grpc.Peer(&from)); err != nil {
			t.Fatal(err)
		}
		if header != nil || trailer != nil || from.Addr != nil {
			t.Errorf("header %v, trailer %v and peer %v are of an earlier attempt", header, trailer, from)
		}
	})
}

func TestCallOptionsOfTheCallOnly(t *testing.T) {
	bubble(t, "Disable makes one attempt and leaves the error as it is", func(t *testing.T) {
		s := answering(errDown)
		if err := newClient(t, s, keyed).call(t.Context(), retry.Disable()); err != errDown {
			t.Errorf("error is %v", err)
		}
		wantCalls(t, s, 1)
		if k := s.values("idempotency-key")[0]; len(k) != 1 {
			t.Errorf("the call carries %d keys, want 1", len(k))
		}
	})
	bubble(t, "an only attempt is bounded as any is", func(t *testing.T) {
		for _, ctx := range []context.Context{t.Context(), retry.Own(t.Context(), "orchestrator")} {
			start := time.Now()
			s := &server{answer: untilDone}
			p := retry.WithPolicy(retry.Policy{PerAttemptTimeout: time.Second, MaxElapsed: time.Minute})
			wantCode(t, newClient(t, s, p).call(ctx, retry.Disable()), codes.DeadlineExceeded)
			if got := time.Since(start); got != time.Second {
				t.Errorf("returned after %v, want 1s", got)
			}
		}
	})
	bubble(t, "CallPolicy replaces the policy", func(t *testing.T) {
		s := answering(errDown)
		err := newClient(t, s, retry.WithPolicy(steady(9))).call(t.Context(), retry.CallPolicy(retry.Policy{MaxAttempts: 2}))
		wantCalls(t, s, 2)
		exhausted(t, err, retry.ReasonMaxAttempts)
	})
	bubble(t, "CallSafety raises", func(t *testing.T) {
		s := answering(errDown, nil)
		if err := (client{t, newInterceptor(t), s}).call(t.Context(), retry.CallSafety(retry.SafetySafe)); err != nil {
			t.Error(err)
		}
	})
	bubble(t, "CallSafety lowers", func(t *testing.T) {
		s := answering(errDown)
		err := newClient(t, s).call(t.Context(), retry.CallSafety(retry.SafetyUnsafe))
		wantCalls(t, s, 1)
		exhausted(t, err, retry.ReasonNotRetrySafe)
	})
	bubble(t, "mistakes fail before anything is sent", func(t *testing.T) {
		s := answering(nil)
		c := newClient(t, s)
		wantCode(t, c.call(t.Context(), retry.CallPolicy(retry.Policy{MaxAttempts: -1})), codes.InvalidArgument)
		wantCode(t, c.call(t.Context(), retry.CallSafety(42)), codes.InvalidArgument)
		wantCalls(t, s, 0)
	})
	bubble(t, "the caller's own options arrive, ours do not", func(t *testing.T) {
		s := answering(nil)
		var header metadata.MD
		opts := []grpc.CallOption{retry.Disable(), grpc.Header(&header), retry.CallSafety(retry.SafetySafe)}
		if err := newClient(t, s).call(t.Context(), opts...); err != nil {
			t.Error(err)
		}
		for _, o := range s.attempts[0].options {
			if fmt.Sprintf("%T", o) == "retry.callOption" {
				t.Error("the interceptor passed its own option on")
			}
		}
		if _, ok := s.attempts[0].options[0].(grpc.HeaderCallOption); !ok {
			t.Errorf("options are %T", s.attempts[0].options)
		}
		if _, ok := opts[0].(grpc.HeaderCallOption); ok {
			t.Error("the caller's slice was changed")
		}
	})
}

func TestHooksSeeEachRetryAndTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var retries []retry.Retry
		var ends []*retry.ExhaustedError
		c := newClient(t, answering(errDown), retry.WithPolicy(steady(3)),
			retry.WithOnRetry(func(_ context.Context, r retry.Retry) { retries = append(retries, r) }),
			retry.WithOnExhausted(func(_ context.Context, ex *retry.ExhaustedError) { ends = append(ends, ex) }))
		err := c.call(t.Context())
		if len(retries) != 2 || len(ends) != 1 || !errors.Is(err, ends[0]) {
			t.Fatalf("hooks saw %d retries and %d ends", len(retries), len(ends))
		}
		want := retry.Retry{Method: method, Attempts: 2, Code: codes.Unavailable, Err: errDown, Wait: 200 * time.Millisecond, Ceiling: 200 * time.Millisecond}
		if retries[1] != want {
			t.Errorf("the second retry is %+v, want %+v", retries[1], want)
		}
	})
}

// A call's state is pooled: what one call had must not show in the next.
func TestCallsDoNotShareState(t *testing.T) {
	for name, p := range map[string]retry.Policy{"plain": steady(2), "bounded": {MaxAttempts: 2, MaxElapsed: time.Hour, PerAttemptTimeout: time.Minute}} {
		bubble(t, name, func(t *testing.T) { callsDoNotShareState(t, p) })
	}
}

func callsDoNotShareState(t *testing.T, p retry.Policy) {
	s := &server{answer: func(n int, s seen, _ *wrapperspb.StringValue) error {
		if n == 1 {
			s.setTrailer("grpc-retry-pushback-ms", "-1")
			return nil
		}
		return errDown
	}}
	c := newClient(t, s, retry.WithPolicy(p))
	if err := c.call(t.Context(), grpc.WaitForReady(true)); err != nil {
		t.Fatal(err)
	}
	exhausted(t, c.call(t.Context()), retry.ReasonMaxAttempts)
	wantCalls(t, s, 3)
	for _, o := range s.attempts[1].options {
		if _, ok := o.(grpc.FailFastCallOption); ok {
			t.Error("an option of the call before arrived")
		}
	}
}

// What made an attempt fail may go on to write where its options say, such as
// an interceptor below that stopped waiting for it.
func TestALateWriterDoesNotReachTheNextCall(t *testing.T) {
	for name, p := range map[string]retry.Policy{"plain": {MaxAttempts: 2}, "bounded": {MaxAttempts: 2, MaxElapsed: time.Hour}} {
		bubble(t, name, func(t *testing.T) {
			s := &server{}
			s.answer = func(n int, _ seen, _ *wrapperspb.StringValue) error {
				if n > 2 {
					s.attempts[0].setTrailer("grpc-retry-pushback-ms", "-1")
				}
				if n == 2 {
					return nil
				}
				return errDown
			}
			c := newClient(t, s, retry.WithPolicy(p))
			if err := c.call(t.Context()); err != nil {
				t.Fatal(err)
			}
			exhausted(t, c.call(t.Context()), retry.ReasonMaxAttempts)
			wantCalls(t, s, 4)
		})
	}
}
