package retry_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrysafe/retrysafe/interceptor/retry"
)

// Invoke makes a server a connection that a call can fail over to.
func (s *server) Invoke(ctx context.Context, method string, req, reply any, opts ...grpc.CallOption) error {
	return s.invoke(ctx, method, req, reply, nil, opts...)
}

// NewStream is not used: streams are not retried.
func (s *server) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errors.ErrUnsupported
}

func TestFailoverGoesFromTargetToTarget(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		first, second, third := answering(errDown), answering(errDown), answering(errDown, nil)
		var retries []retry.Retry
		c := newClient(t, first, retry.WithPolicy(steady(2)), retry.WithFailover(second, third),
			retry.WithOnRetry(func(_ context.Context, r retry.Retry) { retries = append(retries, r) }))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		if err := c.call(ctx); err != nil {
			t.Fatal(err)
		}
		for i, s := range []*server{first, second, third} {
			wantCalls(t, s, 2)
			if deadline, _ := s.attempts[1].ctx.Deadline(); deadline.Sub(start) != time.Minute {
				t.Errorf("target %d has another deadline: %v", i, deadline)
			}
		}
		// 100 ms at each target, and no wait between them.
		if got := time.Since(start); got != 300*time.Millisecond {
			t.Errorf("it took %v, want 300ms", got)
		}
		if got := third.values("grpc-previous-rpc-attempts"); !equal(got, [][]string{{"4"}, {"5"}}) {
			t.Errorf("counts at the third target are %q", got)
		}
		var moved []string
		for _, r := range retries {
			if r.Failover {
				moved = append(moved, r.Target)
			}
		}
		if !slices.Equal(moved, []string{"failover-1", "failover-2"}) {
			t.Errorf("hooks saw failovers to %q", moved)
		}
	})
}

func TestFailoverEndsWithTheLastTarget(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		second := answering(errSlow)
		err := newClient(t, answering(errDown), retry.WithPolicy(steady(2)), retry.WithFailover(second)).call(t.Context())
		if ex := exhausted(t, err, retry.ReasonMaxAttempts); ex.Attempts != 4 {
			t.Errorf("attempts are %d, want 4", ex.Attempts)
		}
		wantCode(t, err, codes.DeadlineExceeded)
	})
}

func TestWhenACallFailsOver(t *testing.T) {
	for _, tt := range []struct {
		name     string
		first    *server
		opts     []retry.Option
		deadline time.Duration
		moves    bool
	}{
		{name: "attempts used up", first: answering(errDown), moves: true},
		{name: "tokens used up", first: answering(errDown), opts: []retry.Option{retry.WithBudget(retry.Budget{MaxTokens: 1})}, moves: true},
		{name: "a wait that does not fit", first: pushing(says("60000")), deadline: time.Second, moves: true},
		{name: "an answer that is not retried", first: answering(errAbsent)},
		{name: "a server that asks not to retry", first: pushing(says("-1"))},
		{name: "no time left", first: &server{answer: untilDone}, deadline: time.Second},
		{name: "less time left than an attempt takes", deadline: time.Second, first: &server{answer: func(int, seen, *wrapperspb.StringValue) error {
			time.Sleep(600 * time.Millisecond)
			return errDown
		}}},
		{name: "an Unsafe call", first: answering(errDown), opts: []retry.Option{retry.WithMethodSafety("*", retry.SafetyUnsafe)}},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			ctx := t.Context()
			if tt.deadline > 0 {
				bounded, cancel := context.WithTimeout(ctx, tt.deadline)
				defer cancel()
				ctx = bounded
			}
			second := answering(nil)
			err := newClient(t, tt.first, append(tt.opts, retry.WithPolicy(steady(2)), retry.WithFailover(second))...).call(ctx)
			if moved := err == nil && second.calls() == 1; moved != tt.moves {
				t.Errorf("error is %v and the second target saw %d attempts", err, second.calls())
			}
		})
	}
}

func TestKeyedCallsFailOverOnlyToTargetsWithTheSameStore(t *testing.T) {
	bubble(t, "stated", func(t *testing.T) {
		first, second := answering(errDown), answering(nil)
		if err := newClient(t, first, keyed, retry.WithFailover(second), retry.WithSharedStore()).call(t.Context()); err != nil {
			t.Fatal(err)
		}
		if oneKey(t, first) != oneKey(t, second) {
			t.Error("the second target got another key")
		}
	})
	bubble(t, "not stated, and Keyed by the .proto", func(t *testing.T) {
		first, second := answering(errDown), answering(nil)
		c := client{t, newInterceptor(t, retry.WithFailover(second)), first}
		exhausted(t, c.callMethod(t.Context(), required), retry.ReasonMaxAttempts)
		wantCalls(t, second, 0)
	})
	t.Run("not stated, and Keyed by configuration", func(t *testing.T) {
		_, err := retry.UnaryClientInterceptor(retry.WithMethodSafety("/a.B/C", retry.SafetyKeyed), retry.WithFailover(answering(nil)))
		if err == nil || !strings.Contains(err.Error(), "WithFailover: /a.B/C is Keyed") {
			t.Errorf("error is %v", err)
		}
	})
}

func TestATargetsBudgetIsItsOwn(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		first, second := answering(errDown), answering(errDown)
		err := newClient(t, first, aTenth, retry.WithPolicy(immediate), retry.WithFailover(second)).call(t.Context())
		exhausted(t, err, retry.ReasonBudget)
		wantCalls(t, first, 5)
		wantCalls(t, second, 5)
	})
}
