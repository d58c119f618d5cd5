package dedup

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"
)

// run is one execution under its claim.
type run struct {
	*call
	claim     Claim
	execution Execution
	detached  context.Context // the caller's, without its end
	lease     lease           // of a store whose claims are no transactions

	handler boundContext // fn's
	writes  int
	write   boundContext // the first write's
}

// execute calls fn under the claim and settles it.
func (c *call) execute(ctx context.Context, claim Claim) (Result, error) {
	r := &run{call: c, claim: claim, detached: context.WithoutCancel(ctx)}
	deadline := time.Now().Add(c.op.MaxExecution)
	if c.joined != nil && c.transactional() && c.joined.deadline.Before(deadline) {
		deadline = c.joined.deadline
	}
	r.execution = Execution{engine: c.engine, key: &c.op.Key, claim: claim, deadline: deadline, outer: c.outer}
	bound := r.handler.begin(r.detached, deadline)
	bound.execution = &r.execution
	defer bound.end(nil)
	if !c.transactional() {
		defer r.lease.stop()
		if err := r.lease.hold(r, c.claimSent); err != nil {
			r.giveUp(NoEffect)
			return Result{}, &StoreError{Op: "claim", cause: err}
		}
	}
	c.executed = true
	c.disposition = DispositionExecuted
	c.engine.held(ctx, &c.op, 1)
	defer c.engine.held(ctx, &c.op, -1)
	out, err := r.callFn(claim.Context(bound))
	r.lease.answer()
	return r.settle(out, err)
}

// callFn calls fn. Where fn does not return, because it panics or ends its
// goroutine, it settles the claim and lets it go on.
func (r *run) callFn(ctx context.Context) (Outcome, error) {
	returned := false
	defer func() {
		if !returned {
			r.giveUp(Uncertain)
		}
	}()
	out, err := r.fn(ctx)
	returned = true
	return out, err
}

// settle does what the answer's class asks for.
func (r *run) settle(out Outcome, err error) (Result, error) {
	class := r.class(out, err)
	if class == Terminal {
		return r.record(out)
	}
	r.giveUp(class)
	return Result{Outcome: out, Waited: r.waited}, err
}

// class returns the class of what fn answered.
func (r *run) class(out Outcome, err error) Class {
	class := r.execution.class
	switch {
	case class == Terminal && err != nil:
		return Uncertain
	case class != 0:
		return class
	case errors.Is(err, ErrNoEffect):
		return NoEffect
	case err != nil:
		return Uncertain
	}
	return Classify(out.Code)
}

// giveUp ends a claim that has no outcome: it is released where nothing has
// taken place, or where the store undoes what has; otherwise it is left to its
// lease.
func (r *run) giveUp(class Class) {
	r.lease.stop()
	if class != NoEffect && !r.transactional() {
		return
	}
	err := r.release()
	if err == nil || errors.Is(err, ErrLeaseLost) || r.transactional() {
		return
	}
	r.engine.log(r.detached, slog.LevelWarn, "claim could not be released, trying again", &r.op, err)
	r.insist(r.release)
}

// record completes the claim with the outcome.
func (r *run) record(out Outcome) (Result, error) {
	large := recordSize(&out) > r.engine.maxOutcome
	if r.transactional() {
		return r.commit(out, large)
	}
	var record []byte
	err := error(ErrTooLarge)
	if !large {
		record = encodeRecord(&out)
		err = r.complete(record, false)
	}
	if errors.Is(err, ErrTooLarge) {
		record, large = tooLargeRecord(), true
		err = r.complete(record, false)
	}
	res := Result{Outcome: out, Waited: r.waited, Unrecorded: large || err != nil}
	if err == nil {
		r.found.record = record
	}
	if res.Unrecorded {
		r.unrecorded(&res, record, large, err)
	}
	return res, nil
}

// commit records the outcome in the transaction of the handler's writes. Where
// that fails, none of it took place, or it is not known; so nobody is told of
// an outcome.
func (r *run) commit(out Outcome, large bool) (Result, error) {
	if large {
		r.giveUp(NoEffect)
		r.disposition = DispositionFailed
		return Result{}, ErrTooLarge
	}
	record := encodeRecord(&out)
	err := r.complete(record, out.Code != codes.OK)
	if err == nil {
		r.found.record = record
		return Result{Outcome: out, Waited: r.waited}, nil
	}
	r.disposition = DispositionFailed
	if errors.Is(err, ErrFull) || errors.Is(err, ErrTooLarge) {
		return Result{}, err
	}
	return Result{}, &StoreError{Op: "complete", cause: err}
}

// unrecorded deals with an effect that stands and whose outcome the store does
// not have. The claim is never released: that would execute it again.
func (r *run) unrecorded(res *Result, record []byte, large bool, err error) {
	if f := r.engine.observer.Unrecorded; f != nil {
		f(r.detached, r.op.Key.Method)
	}
	switch {
	case err == nil:
		r.engine.log(r.detached, slog.LevelWarn, "outcome was too large to record", &r.op, ErrTooLarge)
	case errors.Is(err, ErrLeaseLost):
		r.engine.log(r.detached, slog.LevelError, "outcome was not recorded: another may execute the operation again", &r.op, err)
	default:
		r.engine.log(r.detached, slog.LevelError, "outcome was not recorded, trying again", &r.op, err)
		recorded := r.insist(func() error { return r.complete(record, false) })
		res.Unrecorded = large || !recorded
	}
}

func (r *run) complete(record []byte, undo bool) error {
	ctx := r.bound()
	defer ctx.end(nil)
	started := r.engine.callStarts()
	err := r.claim.Complete(ctx, Completion{Record: record, Retention: r.op.Retention, Undo: undo})
	r.engine.called(r.detached, &r.op, StoreCallComplete, started, err)
	return err
}

func (r *run) release() error {
	ctx := r.bound()
	defer ctx.end(nil)
	started := r.engine.callStarts()
	err := r.claim.Release(ctx)
	r.engine.called(r.detached, &r.op, StoreCallRelease, started, err)
	return err
}

// bound makes the context of a settlement, which has the store timeout to
// itself.
func (r *run) bound() *boundContext {
	until := time.Now().Add(r.engine.storeTimeout)
	if r.writes++; r.writes > 1 {
		return newBoundContext(r.detached, until)
	}
	return r.write.begin(r.detached, until)
}

// transactional says whether the store's claims are transactions.
func (c *call) transactional() bool { return c.engine.store.Promise() == ExactlyOnce }
