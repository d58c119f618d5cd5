package dedup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"
)

// call is one call of [Engine.Do].
type call struct {
	engine *Engine
	op     Operation
	fn     func(context.Context) (Outcome, error)

	started   time.Time
	waitUntil time.Time // when the wait for others is over
	owner     Owner
	outer     *Execution // the one whose handler asks, or nil
	joined    *Execution // outer, or the next around it that is on this store
	flight    *flight    // nil where the call does not wait in memory
	found     verdict    // what it tells those who wait for it
	pacer     pacer
	waited    bool

	claimSent time.Time // when the claim was first asked for
	executed  bool      // fn was called

	disposition Disposition

	// What most calls need once stands here, for one allocation in all.
	ownFlight flight
	ownBound  boundContext
	bounds    int
}

// do answers the call: from the store, from memory, or by executing.
func (c *call) do(ctx context.Context) (Result, error) {
	c.waitUntil = c.started.Add(c.engine.wait)
	if ex, ok := ExecutionFromContext(ctx); ok {
		if ex.executes(c.engine, c.op.Key) {
			return Result{}, ErrNested
		}
		c.outer, c.joined = ex, ex.within(c.engine)
	}
	// The execution that asks may hold what the leader is waiting for: its own
	// transaction. So the call does not wait for the leader, but asks the store,
	// which knows.
	if c.joined != nil {
		return c.lead(ctx)
	}
	f, w, err := c.engine.flights.join(&c.op, &c.ownFlight)
	if err != nil {
		return Result{}, err
	}
	c.flight = f
	if w != nil {
		v, err := c.await(ctx, w)
		if err != nil {
			return Result{}, err
		}
		if !v.lead {
			return c.replay(v)
		}
	}
	return c.lead(ctx)
}

// lead asks the store, and tells those who wait for it what it found, also
// where fn panics.
func (c *call) lead(ctx context.Context) (Result, error) {
	if c.flight != nil {
		defer func() { c.engine.flights.land(c.flight, c.found) }()
	}
	rand.Read(c.owner[:])
	for {
		answer, err := c.claim(ctx)
		if err != nil {
			return Result{}, err
		}
		if answer.State == InProgress {
			// What an open transaction was claimed with, others cannot see.
			if !c.transactional() {
				c.judge()
			}
			if err := c.awaitElsewhere(ctx, answer.LeaseLeft); err != nil {
				return Result{}, err
			}
			continue
		}
		return c.answer(ctx, answer)
	}
}

// answer acts on every state but InProgress.
func (c *call) answer(ctx context.Context, a Answer) (Result, error) {
	switch a.State {
	case Claimed:
		if a.Claim == nil {
			return Result{}, &StoreError{Op: "claim", cause: errors.New("the store gave no claim")}
		}
		c.judge()
		return c.execute(ctx, a.Claim)
	case Completed:
		c.judge()
		c.found.record = a.Record
	case Unknown:
		c.judge()
		c.found.err = ErrOutcomeUnknown
	case Reused:
		c.found.err = reused(a.Fingerprint, c.op.Fingerprint)
	default:
		return Result{}, &StoreError{Op: "claim", cause: fmt.Errorf("the store answered %v", a.State)}
	}
	return c.replay(c.found)
}

// judge says that the request is the operation's own.
func (c *call) judge() {
	if c.flight != nil {
		c.engine.flights.judge(c.flight)
	}
}

// replay answers from what the store, or the call that led, has found.
func (c *call) replay(v verdict) (Result, error) {
	if v.err != nil {
		return Result{}, v.err
	}
	out, err := decodeRecord(v.record)
	if err != nil {
		return Result{}, err
	}
	c.disposition = DispositionReplayed
	if c.waited {
		c.disposition = DispositionWaited
	}
	return Result{Outcome: out, Replayed: true, Waited: c.waited}, nil
}

// claim asks the store, and asks once more where the answer was lost: a claim
// recognises its owner. The error is the caller's.
func (c *call) claim(ctx context.Context) (Answer, error) {
	if err := ctx.Err(); err != nil {
		return Answer{}, err
	}
	c.claimSent = time.Now()
	until := c.claimSent.Add(c.engine.storeTimeout)
	if until.Before(c.waitUntil) {
		until = c.waitUntil
	}
	bound := c.claimBound(ctx, until)
	defer bound.end(nil)
	answer, err := c.ask(bound, c.op.OnUnknown == Reexecute)
	if err != nil && bound.Err() == nil && !errors.Is(err, ErrFull) {
		answer, err = c.ask(bound, c.op.OnUnknown == Reexecute)
	}
	if err == nil {
		return answer, nil
	}
	if bound.Err() != nil {
		c.giveBack(ctx)
	}
	if err := ctx.Err(); err != nil {
		return Answer{}, err
	}
	if errors.Is(err, ErrFull) {
		return Answer{}, err
	}
	return Answer{}, &StoreError{Op: "claim", cause: err}
}

// claimBound makes the context of a claim.
func (c *call) claimBound(ctx context.Context, until time.Time) *boundContext {
	if c.bounds++; c.bounds > 1 {
		return newBoundContext(ctx, until)
	}
	return c.ownBound.begin(ctx, until)
}

func (c *call) ask(ctx context.Context, takeover bool) (Answer, error) {
	started := c.engine.callStarts()
	answer, err := c.engine.store.Claim(ctx, ClaimRequest{
		Key:         c.op.Key,
		Fingerprint: c.op.Fingerprint,
		Owner:       c.owner,
		Lease:       c.op.Lease,
		Retention:   c.op.Retention,
		Takeover:    takeover,
	})
	c.engine.called(ctx, &c.op, StoreCallClaim, started, err)
	return answer, err
}

// giveBack releases the claim that the store may have given in an answer that
// nobody waited for, so that the operation is not blocked to the end of a lease.
// A transaction ended with its caller.
func (c *call) giveBack(ctx context.Context) {
	if c.engine.store.Promise() != OneAtATime {
		return
	}
	ctx = context.WithoutCancel(ctx)
	c.engine.background.run(func(<-chan struct{}) {
		bound := newBoundContext(ctx, time.Now().Add(c.engine.storeTimeout))
		defer bound.end(nil)
		answer, err := c.ask(bound, false)
		if err != nil || answer.State != Claimed || answer.Claim == nil {
			return
		}
		started := c.engine.callStarts()
		err = answer.Claim.Release(bound)
		c.engine.called(ctx, &c.op, StoreCallRelease, started, err)
	})
}

// reused is the error for a key that came before with another fingerprint.
// Those of different versions cannot be compared, so nothing is known, and
// nothing is executed.
func reused(before, now Fingerprint) error {
	if before.Version != now.Version {
		return fmt.Errorf("%w: its fingerprint has version %d, the request's has %d",
			ErrRecordUnreadable, before.Version, now.Version)
	}
	return ErrKeyReused
}
