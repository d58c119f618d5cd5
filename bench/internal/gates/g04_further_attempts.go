package gates

import (
	"context"

	"github.com/retrysafe/retrysafe/bench/internal/measure"
	"github.com/retrysafe/retrysafe/interceptor/retry"
)

// attempts is how many the calls of this gate make.
const attempts = 10

// furtherAttempts: what each attempt after the first costs where nothing is
// waited for: a call of ten, less a call of one, over nine.
func furtherAttempts(ctx context.Context, m *Machine) ([]measure.Finding, error) {
	policy := retry.WithPolicy(retry.Policy{MaxAttempts: attempts, Backoff: retry.Backoff{Immediate: true}})
	var ways []measure.Way
	perCall := make(map[string]float64)
	add := func(name string, c *caller) (err error) {
		perCall[name], err = measure.Allocs(c.call)
		ways = append(ways, measure.Loop(name, c.call))
		return err
	}
	for _, made := range []struct {
		times    string
		failures int
	}{{"ten ", attempts - 1}, {"one ", 0}} {
		for name, safety := range map[string]retry.Safety{"Safe": retry.SafetySafe, "Keyed": retry.SafetyKeyed} {
			// The budget would end a test in which nine of ten attempts fail.
			c, err := ours(safety, failing(made.failures), policy, retry.WithoutBudget())
			if err != nil {
				return nil, err
			}
			if err := add(made.times+name, c); err != nil {
				return nil, err
			}
		}
		if err := add(made.times+goGRPCMiddleware, middlewares(attempts, failing(made.failures))); err != nil {
			return nil, err
		}
	}
	c, err := m.Plan.Cut(someGarbage).Compare(ctx, ways...)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"Safe", "Keyed", goGRPCMiddleware} {
		c.Derive(name, "ten "+name, "one "+name, func(ten, one float64) float64 { return (ten - one) / (attempts - 1) })
	}
	further := func(name string) float64 { return (perCall["ten "+name] - perCall["one "+name]) / (attempts - 1) }
	return []measure.Finding{
		one("Safe : "+goGRPCMiddleware, c.Ratio("Safe", goGRPCMiddleware), measure.Times, measure.AtMost(0.8)),
		one("Keyed : "+goGRPCMiddleware, c.Ratio("Keyed", goGRPCMiddleware), measure.Times, measure.AtMost(0.8)),
		counted("Safe: allocations, timers among them", further("Safe"), measure.AtMost(5)),
		counted("Keyed: allocations, timers among them", further("Keyed"), measure.AtMost(5)),
		told("Safe", c.Of("Safe"), measure.Nanoseconds),
		told("Keyed", c.Of("Keyed"), measure.Nanoseconds),
		told(goGRPCMiddleware, c.Of(goGRPCMiddleware), measure.Nanoseconds),
		counted(goGRPCMiddleware+": allocations", further(goGRPCMiddleware), measure.Limit{}),
	}, nil
}
