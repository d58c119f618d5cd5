package idempotency

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/interceptor/internal/wire"
)

// refusal is why a call gets no outcome, as the contract names it.
type refusal struct {
	reason  wire.Reason
	message string
}

// refusals maps the engine's errors. [dedup.InProgressError] and
// [dedup.StoreError] also say when to come back.
var refusals = []struct {
	err error
	refusal
}{
	{dedup.ErrKeyReused, refusal{wire.ReasonKeyReused, "the idempotency key came before with another request"}},
	{dedup.ErrInProgress, refusal{wire.ReasonInProgress, "an earlier attempt of the operation is still running"}},
	{dedup.ErrStoreUnavailable, refusal{wire.ReasonStoreUnavailable, "the store of outcomes is unavailable; repeating the call with its key is safe"}},
	{dedup.ErrFull, refusal{wire.ReasonStoreFull, "the store of outcomes is full"}},
	{dedup.ErrTooLarge, refusal{wire.ReasonOutcomeTooLarge, "the operation's outcome is too large to keep"}},
	{dedup.ErrRecordUnreadable, refusal{wire.ReasonRecordUnreadable, "the operation's recorded outcome cannot be read"}},
	{dedup.ErrOutcomeUnknown, refusal{wire.ReasonOutcomeUnknown, "it is not known whether the operation executed"}},
}

// refuse returns the status for an error of the engine, and sets the pushback
// trailer where a retry helps.
func refuse(ctx context.Context, err error) error {
	for _, r := range refusals {
		if !errors.Is(err, r.err) {
			continue
		}
		after, ok := retryAfter(err)
		if !ok {
			return wire.Error(r.reason, r.message)
		}
		setMetadata(ctx, nil, metadata.Pairs(wire.PushbackTrailer, wire.PushbackValue(after)))
		return wire.ErrorRetryAfter(r.reason, r.message, after)
	}
	if ended := ctx.Err(); ended != nil && errors.Is(err, ended) {
		return status.FromContextError(ended).Err()
	}
	if errors.Is(err, dedup.ErrNested) {
		return status.Error(codes.Internal, "retrysafe: the operation is being executed by this very call: its handler called it, or the interceptor is installed twice")
	}
	return status.Error(codes.Internal, "retrysafe: the call cannot be deduplicated")
}

// The hint after a failure of the store is spread over this time, so that the
// callers that failed together do not come back together.
const (
	minStoreRetry = 100 * time.Millisecond
	maxStoreRetry = 300 * time.Millisecond
)

func retryAfter(err error) (time.Duration, bool) {
	var busy *dedup.InProgressError
	if errors.As(err, &busy) {
		return busy.RetryAfter, true
	}
	if errors.Is(err, dedup.ErrStoreUnavailable) {
		return minStoreRetry + rand.N(maxStoreRetry-minStoreRetry), true
	}
	return 0, false
}
