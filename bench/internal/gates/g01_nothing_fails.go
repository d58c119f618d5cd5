package gates

import (
	"context"

	"google.golang.org/grpc"

	"github.com/retrysafe/retrysafe/bench/internal/measure"
	"github.com/retrysafe/retrysafe/interceptor/retry"
)

// nothingFails: what a call costs that needs no retry, and whose invoker does
// nothing, as everybody's default policy of three attempts has it.
func nothingFails(ctx context.Context, m *Machine) ([]measure.Finding, error) {
	unlisted, err := ours(retry.SafetyUnsafe, succeed)
	if err != nil {
		return nil, err
	}
	safe, err := ours(retry.SafetySafe, succeed)
	if err != nil {
		return nil, err
	}
	unlistedAllocs, err := allocs("unlisted method", 0, unlisted.call)
	if err != nil {
		return nil, err
	}
	safeAllocs, err := allocs("Safe method", 0, safe.call)
	if err != nil {
		return nil, err
	}
	c, err := m.Plan.Cut(someGarbage).Compare(ctx,
		measure.Loop("bare", newCaller(none, succeed).call),
		measure.Loop("unlisted", unlisted.call),
		measure.Loop("safe", safe.call),
		measure.Loop(goGRPCMiddleware, middlewares(3, succeed).call),
		measure.Loop(failsafeGo, failsafes(3, succeed).call))
	findings := []measure.Finding{unlistedAllocs, safeAllocs}
	for _, way := range []string{"unlisted", "safe"} {
		findings = append(findings,
			measure.Finding{
				figure(way+": a call", c.Of(way), measure.Nanoseconds, measure.AtMost(60)),
				figure(way+" : "+goGRPCMiddleware, c.Ratio(way, goGRPCMiddleware), measure.Times, measure.AtMost(3)),
			},
			one(way+" : "+failsafeGo, c.Ratio(way, failsafeGo), measure.Times, measure.AtMost(0.1)))
	}
	return append(findings,
		told("without an interceptor", c.Of("bare"), measure.Nanoseconds),
		told(goGRPCMiddleware, c.Of(goGRPCMiddleware), measure.Nanoseconds),
		told(failsafeGo, c.Of(failsafeGo), measure.Nanoseconds)), err
}

// none is no interceptor.
func none(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return invoker(ctx, method, req, reply, cc, opts...)
}
