package retry

import (
	"context"
	"time"
)

// sleep waits for d, or until ctx is done.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// limit is the moment by which a call must have its answer.
type limit struct {
	at     time.Time // zero: there is none
	reason Reason    // whose it is: ReasonDeadline or ReasonMaxElapsed
}

// limitOf returns the earlier of the deadline of ctx, which is the caller's,
// and the end of maxElapsed from now.
func limitOf(ctx context.Context, maxElapsed time.Duration) limit {
	l := limit{reason: ReasonDeadline}
	l.at, _ = ctx.Deadline()
	if maxElapsed <= 0 {
		return l
	}
	if end := time.Now().Add(maxElapsed); l.at.IsZero() || end.Before(l.at) {
		return limit{at: end, reason: ReasonMaxElapsed}
	}
	return l
}

func (l limit) exists() bool { return !l.at.IsZero() }
