package gates

import (
	"context"
	"errors"

	"google.golang.org/grpc/metadata"

	"github.com/retrysafe/retrysafe/bench/internal/measure"
	"github.com/retrysafe/retrysafe/interceptor/idempotency"
	"github.com/retrysafe/retrysafe/interceptor/retry"
)

// keyed: what a call costs that gets a key, next to what nobody can avoid who
// sends one: to make it, and to append the same metadata.
func keyed(ctx context.Context, m *Machine) ([]measure.Finding, error) {
	call, err := ours(retry.SafetyKeyed, succeed)
	if err != nil {
		return nil, err
	}
	byHand := newCaller(none, succeed)
	appended := func() error {
		ctx := metadata.AppendToOutgoingContext(byHand.ctx,
			idempotency.MetadataKey, idempotency.NewKey(), "retry-owner", retry.DefaultOwner)
		return byHand.invoker(ctx, method, byHand.request, byHand.reply, nil)
	}
	count, err := allocs("Keyed", 5, call.call)
	if err != nil {
		return nil, err
	}
	bytes, err1 := measure.Bytes(call.call)
	byHandBytes, err2 := measure.Bytes(appended)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	c, err := m.Plan.Cut(someGarbage).Compare(ctx, measure.Loop("keyed", call.call), measure.Loop("appended", appended))
	return []measure.Finding{
		count,
		{
			figure("Keyed: bytes allocated", measure.Exactly(bytes), measure.Byte, measure.AtMost(208)),
			// gRPC's metadata takes 168 of them, and the key's 36 characters 48: with
			// the allocator's sizes nobody who sends a key takes fewer than 216.
			figure("Keyed : appending the same by hand, in bytes", measure.Exactly(bytes/byHandBytes), measure.Times, measure.AtMost(1)),
		},
		one("Keyed : appending the same by hand", c.Ratio("keyed", "appended"), measure.Times, measure.AtMost(1.15)),
		told("Keyed: a call", c.Of("keyed"), measure.Nanoseconds),
	}, err
}
