package gates

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/retrysafe/retrysafe/bench/internal/measure"
	"github.com/retrysafe/retrysafe/interceptor/retry"
)

// jitterAndBudget: what calls of one target share must not make 64 of them
// queue. Each call fails once and then succeeds, so that it takes a token,
// draws a wait and gives the token back; the wait is drawn below a nanosecond,
// so that none is slept.
func jitterAndBudget(ctx context.Context, m *Machine) ([]measure.Finding, error) {
	policy := retry.Policy{MaxAttempts: 2, Backoff: retry.Backoff{Base: time.Nanosecond, Cap: time.Nanosecond}}
	call, err := ours(retry.SafetySafe, nil, retry.WithPolicy(policy), retry.WithBudget(retry.Budget{MaxTokens: 1000, TokenRatio: 1}))
	if err != nil {
		return nil, err
	}
	var wrong atomic.Int64
	once := func() error {
		made := 0
		invoker := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
			if made++; made == 1 {
				return errDown
			}
			return nil
		}
		err := call.intercept(call.ctx, method, call.request, call.reply, nil, invoker)
		if made != 2 {
			wrong.Add(1) // then the budget was not asked as it should be
		}
		return err
	}
	c, err := m.Plan.Compare(ctx, measure.Share("one", 1, once), measure.Share("64", 64, once))
	return []measure.Finding{
		one("64 goroutines : one, in ns/op", c.Ratio("64", "one"), measure.Times, measure.AtMost(1.2)),
		told("one: a call of two attempts", c.Of("one"), measure.Nanoseconds),
		told("64: a call of two attempts", c.Of("64"), measure.Nanoseconds),
		counted("calls that were not retried", float64(wrong.Load()), measure.Equal(0)),
	}, err
}
