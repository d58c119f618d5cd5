package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
)

// claim is an execution, in a savepoint of the open transaction. One that is
// not nested in another has the turn until it is settled.
type claim struct {
	s     *Store
	depth int    // of its savepoint, from 1
	outer *claim // the one that it is nested in, or nil
	hold  *hold
	fence uint64
	tx    *tx
	began time.Time
	over  atomic.Bool // it is settled, or being settled

	tree   *tree   // guards what follows
	inner  *claim  // the one open inside it, or nil
	joined []*hold // of what was recorded inside it
	state  claimState
	group  *group // what its record was put in
	err    error  // how it ended without a record
}

// tree is shared by all claims that are nested in one. It is held while one of
// them is made or settled.
type tree struct {
	sync.Mutex
	aborted atomic.Bool // what the handlers run is interrupted
}

// claimState is where a claim stands.
type claimState uint8

const (
	claimLive     claimState = iota
	claimRecorded            // in a group, which is committed or lost later
	claimReleased            // given up by its holder
	claimFailed              // to be recorded, which was not possible
	claimLost                // ended by the store
)

var _ dedup.Claim = (*claim)(nil)

// Fence implements [dedup.Claim]. It is the clock in microseconds, and more
// than the last one where that is not.
func (c *claim) Fence() uint64 { return c.fence }

// Attempt implements [dedup.Claim]. What was rolled back is not remembered, so
// it is always the first.
func (c *claim) Attempt() int { return 1 }

// Renew implements [dedup.Claim]. There is no lease to renew.
func (c *claim) Renew(context.Context, time.Duration) error {
	if c.over.Load() {
		return dedup.ErrLeaseLost
	}
	return nil
}

// Context implements [dedup.Claim]. The handler's statements end with ctx.
func (c *claim) Context(ctx context.Context) context.Context {
	c.tx.bind(ctx)
	return context.WithValue(ctx, linkKey{}, &link{claim: c, outer: linkFrom(ctx)})
}

// link is what a context holds of a claim.
type link struct {
	claim *claim
	outer *link // of the claim around it, of any storage
}

type linkKey struct{}

func linkFrom(ctx context.Context) *link {
	at, _ := ctx.Value(linkKey{}).(*link)
	return at
}

// Complete implements [dedup.Claim]. It returns once the commit is durable; a
// nested claim's returns at once, and its record lasts if the outer's does.
func (c *claim) Complete(ctx context.Context, comp dedup.Completion) error {
	c.tree.Lock()
	settled := c.state == claimLive
	if settled {
		c.complete(ctx, comp)
	}
	state, g, err := c.state, c.group, c.err
	c.tree.Unlock()
	if settled {
		c.endTurn()
	}
	switch state {
	case claimRecorded:
		if c.outer != nil {
			return nil
		}
		return g.wait(ctx)
	case claimReleased:
		return dedup.ErrLeaseLost
	}
	return err
}

// Release implements [dedup.Claim].
func (c *claim) Release(context.Context) error {
	c.tree.Lock()
	settled := c.state == claimLive
	if settled {
		c.end(claimReleased, nil)
	}
	state, err := c.state, c.err
	c.tree.Unlock()
	if settled {
		c.endTurn()
	}
	switch state {
	case claimRecorded:
		return dedup.ErrLeaseLost
	case claimLost:
		return err
	}
	return nil
}

// abort ends a claim that its holder has not settled.
func (c *claim) abort(cause error) {
	c.tree.aborted.Store(true)
	c.tree.Lock()
	settled := c.state == claimLive
	if settled {
		c.end(claimLost, cause)
	}
	c.tree.Unlock()
	if settled {
		c.endTurn()
	}
}

// complete records the outcome or undoes the execution. It needs tree.
func (c *claim) complete(ctx context.Context, comp dedup.Completion) {
	err := errors.Join(ctx.Err(), validDurations(comp.Retention))
	if err != nil {
		c.end(claimFailed, fmt.Errorf("sqlitestore: complete: %w", err))
		return
	}
	c.closeHandler()
	if err := c.record(comp); err != nil {
		c.end(claimFailed, storeError("complete", err))
		return
	}
	c.state = claimRecorded
	c.group = c.s.group
	c.group.records++
	if c.outer == nil {
		c.group.holds = append(append(c.group.holds, c.hold), c.joined...)
		return
	}
	c.outer.joined = append(append(c.outer.joined, c.hold), c.joined...)
	c.leaveOuter()
}

// record puts the outcome into the open transaction.
func (c *claim) record(comp dedup.Completion) error {
	w := c.s.writer
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.intact() {
		return ErrRolledBack
	}
	if comp.Undo {
		if err := w.rollbackTo(c.depth); err != nil {
			return err
		}
		c.s.letGo(c.joined)
		c.joined = nil
	}
	// The commit of the whole group would fail otherwise.
	if open, err := w.openForeignKeys(); err != nil || open {
		return errors.Join(err, errForeignKey)
	}
	c.s.probe("before record")
	now := c.s.now()
	e := entry{
		fingerprint: c.hold.fingerprint,
		fence:       c.fence,
		expires:     expiry(now, comp.Retention),
		record:      comp.Record,
	}
	if err := w.insert(c.hold.key, &e, now.UnixMicro()); err != nil {
		return err
	}
	if err := c.leaveSavepoint(w); err != nil {
		return err
	}
	c.s.probe("recorded")
	return nil
}

var errForeignKey = errors.New("the handler leaves a row that breaks a foreign key")

// expiry is in microseconds, rounded up. The longest retention fits.
func expiry(now time.Time, retention time.Duration) int64 {
	expires := now.UnixMicro() + retention.Microseconds()
	if retention%time.Microsecond > 0 {
		expires++
	}
	return expires
}

// end undoes the execution. It needs tree.
func (c *claim) end(state claimState, err error) {
	c.closeHandler()
	c.state, c.err = state, err
	c.undo()
	c.s.letGo(append(c.joined, c.hold))
	c.joined = nil
	if c.outer != nil {
		c.leaveOuter()
	}
}

// undo takes the execution's writes back, or all of the transaction where that
// is not possible.
func (c *claim) undo() {
	w := c.s.writer
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.intact() {
		return
	}
	if w.rollbackTo(c.depth) != nil || c.leaveSavepoint(w) != nil {
		w.rollback()
	}
}

// leaveSavepoint needs w.mu.
func (c *claim) leaveSavepoint(w *writer) error {
	if err := w.releaseTo(c.depth); err != nil || c.outer != nil {
		return err
	}
	return w.restore()
}

// closeHandler ends what the handler left open.
func (c *claim) closeHandler() {
	c.over.Store(true)
	if c.inner != nil {
		c.inner.end(claimLost, fmt.Errorf("%w: the execution around it has ended", dedup.ErrLeaseLost))
	}
	c.tx.end()
}

func (c *claim) leaveOuter() {
	c.outer.inner = nil
	c.outer.tx.block(false)
}

// endTurn is called once, after the claim was settled.
func (c *claim) endTurn() {
	if c.outer != nil {
		return
	}
	c.s.clearActive(time.Since(c.began))
	c.s.pass()
}

// wait returns how the group ended.
func (g *group) wait(ctx context.Context) error {
	select {
	case <-g.done:
		return g.err
	default:
	}
	select {
	case <-g.done:
		return g.err
	case <-ctx.Done():
		return fmt.Errorf("sqlitestore: complete: the commit has not ended: %w", ctx.Err())
	}
}
