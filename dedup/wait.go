package dedup

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	// A poll begins at pollFirst and slows down to pollLast.
	pollFirst = 5 * time.Millisecond
	pollLast  = 250 * time.Millisecond

	// What [InProgressError] says where the store does not know, and where it
	// knows of a long lease, which most executions end well before.
	retryAfterUnknown = 250 * time.Millisecond
	retryAfterMin     = 10 * time.Millisecond
	retryAfterMax     = time.Second
)

// inProgress makes the error that tells a caller to ask again.
func inProgress(leaseLeft time.Duration) error {
	if leaseLeft <= 0 {
		return &InProgressError{RetryAfter: retryAfterUnknown}
	}
	return &InProgressError{RetryAfter: min(max(leaseLeft, retryAfterMin), retryAfterMax)}
}

// pacer keeps apart the times at which one call asks again.
type pacer struct {
	last     time.Time
	interval time.Duration
}

// next returns how long to wait, from now on, before asking the next time: half
// of a growing interval and a random part of the other half, less what has
// already passed.
func (p *pacer) next(now time.Time) time.Duration {
	p.interval = min(max(2*p.interval, pollFirst), pollLast)
	d := p.interval/2 + rand.N(p.interval/2)
	if !p.last.IsZero() {
		d -= now.Sub(p.last)
	}
	p.last = now.Add(max(d, 0))
	return d
}

// await waits in memory for the call that leads.
func (c *call) await(ctx context.Context, w *waiter) (verdict, error) {
	defer c.engine.flights.dismiss()
	c.waited = true
	timer := time.NewTimer(time.Until(c.waitUntil))
	defer timer.Stop()
	select {
	case v := <-w.verdict:
		return v, nil
	case <-ctx.Done():
	case <-timer.C:
	}
	v, ok := c.engine.flights.leave(c.flight, w)
	switch {
	case v.lead:
		c.engine.flights.land(c.flight, verdict{})
	case ok:
		return v, nil
	}
	if err := ctx.Err(); err != nil {
		return verdict{}, err
	}
	return verdict{}, inProgress(0)
}

// awaitElsewhere waits for an execution that another engine has claimed. It
// returns nil when it is time to ask the store again.
func (c *call) awaitElsewhere(ctx context.Context, leaseLeft time.Duration) error {
	c.waited = true
	if !time.Now().Before(c.waitUntil) || !c.engine.flights.admit() {
		return inProgress(leaseLeft)
	}
	defer c.engine.flights.dismiss()
	if err := c.pause(ctx, leaseLeft); err != nil || c.engine.waiter == nil {
		return err
	}
	return c.listen(ctx, leaseLeft)
}

// pause keeps a call from asking too often. A store that wakes those who wait
// is listened to at once the first time; it costs a pause only where it keeps
// waking them for nothing.
func (c *call) pause(ctx context.Context, leaseLeft time.Duration) error {
	now := time.Now()
	if c.engine.waiter != nil && c.pacer.last.IsZero() {
		c.pacer.last = now
		return nil
	}
	d := min(c.pacer.next(now), c.waitUntil.Sub(now))
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
	}
	return c.stillWaiting(ctx, leaseLeft)
}

// listen waits until the store says that the claim is over, or its lease is.
func (c *call) listen(ctx context.Context, leaseLeft time.Duration) error {
	until := c.waitUntil
	if leaseLeft > 0 {
		if end := time.Now().Add(leaseLeft); end.Before(until) {
			until = end
		}
	}
	bound := newBoundContext(ctx, until)
	defer bound.end(nil)
	started := c.engine.callStarts()
	err := c.engine.waiter.Wait(bound, c.op.Key)
	c.engine.called(ctx, &c.op, StoreCallWait, started, err)
	// Whether the store woke us or failed, it is asked again, at its pace.
	return c.stillWaiting(ctx, leaseLeft)
}

func (c *call) stillWaiting(ctx context.Context, leaseLeft time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !time.Now().Before(c.waitUntil) {
		return inProgress(leaseLeft)
	}
	return nil
}
