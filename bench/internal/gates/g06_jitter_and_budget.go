package gates

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/retrysafe/retrysafe/bench/internal/measure"
	"github.com/retrysafe/retrysafe/interceptor/retry"
)

// jitterAndBudget: what calls of one target share must not make 64 of them
// queue. A call fails, so that it takes a token and draws a wait; the wait
// cannot fit the deadline, so that none is slept. Then one succeeds, which
// gives the token back.
func jitterAndBudget(ctx context.Context, m *Machine) ([]measure.Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	backoff := retry.Backoff{Base: 10 * time.Hour, Cap: 10 * time.Hour, Jitter: retry.JitterEqual}
	c, err := ours(retry.SafetySafe, nil, retry.WithPolicy(retry.Policy{Backoff: backoff}),
		retry.WithBudget(retry.Budget{MaxTokens: 1000, TokenRatio: 1}))
	if err != nil {
		return nil, err
	}
	call := func(invoker grpc.UnaryInvoker) error {
		return c.intercept(ctx, method, c.request, c.reply, nil, invoker)
	}
	pair := func() error {
		var ex *retry.ExhaustedError
		if err := call(fail); !errors.As(err, &ex) || ex.Reason != retry.ReasonDeadline {
			return fmt.Errorf("no wait was drawn: %w", err)
		}
		return call(succeed)
	}
	compared, err := m.Plan.Compare(ctx, measure.Share("one", 1, pair), measure.Share("64", 64, pair))
	return []measure.Finding{
		one("64 goroutines : one, in ns/op", compared.Ratio("64", "one"), measure.Times, measure.AtMost(1.2)),
		told("one: two calls, a token and a wait", compared.Of("one"), measure.Nanoseconds),
		told("64: two calls, a token and a wait", compared.Of("64"), measure.Nanoseconds),
	}, err
}

func fail(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
	return errDown
}
