package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
)

// Claim implements [dedup.Store]. It waits, until ctx ends, for the writer and
// for an execution of the same operation. It answers InProgress where ctx ends
// while this process has the operation in hand, and [ErrBusy] where the writer
// was busy with others.
//
// The claim holds the writer until it is settled: whoever gets one must settle
// it. A request for a lease or a retention below a millisecond is refused; the
// lease means nothing otherwise.
func (s *Store) Claim(ctx context.Context, req dedup.ClaimRequest) (dedup.Answer, error) {
	if err := validDurations(req.Lease, req.Retention); err != nil {
		return dedup.Answer{}, fmt.Errorf("sqlitestore: claim: %w", err)
	}
	for at := linkFrom(ctx); at != nil; at = at.outer {
		if !s.sameFile(at.claim.s) {
			continue
		}
		if answer, joined, err := at.claim.join(ctx, &req); joined {
			return answer, err
		}
	}
	for {
		answer, again, err := s.tryClaim(ctx, &req)
		if !again {
			return answer, err
		}
	}
}

func validDurations(ds ...time.Duration) error {
	for _, d := range ds {
		if d < time.Millisecond {
			return fmt.Errorf("a duration of %v is below a millisecond", d)
		}
	}
	return nil
}

// sameFile says whether two stores share their storage.
func (s *Store) sameFile(other *Store) bool {
	return s == other || os.SameFile(s.file, other.file)
}

// tryClaim says again where the operation was in hand and no longer is.
func (s *Store) tryClaim(ctx context.Context, req *dedup.ClaimRequest) (answer dedup.Answer, again bool, err error) {
	if h := s.held(req.Key); h != nil {
		return s.awaitHold(ctx, h, req)
	}
	if answer, found, err := s.read(ctx, req); found || err != nil {
		return answer, false, err
	}
	if err := s.turns.acquire(ctx); err != nil {
		return s.gaveUp(req, busyError(err))
	}
	if s.held(req.Key) != nil {
		s.pass()
		return dedup.Answer{}, true, nil
	}
	if err := s.begin(ctx); err != nil {
		s.pass()
		return dedup.Answer{}, false, err
	}
	answer, err = s.execute(req)
	if answer.State != dedup.Claimed {
		s.pass()
	}
	return answer, false, err
}

// awaitHold waits for the one who has the operation in hand.
func (s *Store) awaitHold(ctx context.Context, h *hold, req *dedup.ClaimRequest) (answer dedup.Answer, again bool, err error) {
	if answer := h.answer(req); answer.State != dedup.InProgress {
		return answer, false, nil
	}
	select {
	case <-h.done:
		return dedup.Answer{}, true, nil
	case <-s.stop:
		return dedup.Answer{}, false, ErrClosed
	case <-ctx.Done():
		return dedup.Answer{State: dedup.InProgress}, false, nil
	}
}

// gaveUp is the answer to one whose wait for the writer is over.
func (s *Store) gaveUp(req *dedup.ClaimRequest, cause error) (answer dedup.Answer, again bool, err error) {
	h := s.held(req.Key)
	if h == nil || errors.Is(cause, ErrClosed) {
		return dedup.Answer{}, false, cause
	}
	return h.answer(req), false, nil
}

// read answers from what is committed, without the writer.
func (s *Store) read(ctx context.Context, req *dedup.ClaimRequest) (dedup.Answer, bool, error) {
	e, found, err := s.reader.lookup(ctx, req.Key)
	if err != nil {
		select {
		case <-s.stop:
			return dedup.Answer{}, false, ErrClosed
		default:
			return dedup.Answer{}, false, fmt.Errorf("sqlitestore: read: %w", err)
		}
	}
	if !found || e.expires <= s.now().UnixMicro() {
		return dedup.Answer{}, false, nil
	}
	return e.answer(req.Fingerprint), true, nil
}

// execute claims the operation inside the open transaction, unless it is
// recorded. The caller has the turn, and the claim takes it over.
func (s *Store) execute(req *dedup.ClaimRequest) (dedup.Answer, error) {
	c := &claim{s: s, depth: 1, tree: new(tree), began: time.Now()}
	answer, err := c.enter(req)
	if err != nil || answer.State != dedup.Claimed {
		return answer, err
	}
	if !s.setActive(c) {
		c.tree.Lock()
		c.end(claimLost, fmt.Errorf("%w: %w", dedup.ErrLeaseLost, ErrClosed))
		c.tree.Unlock()
		return dedup.Answer{}, ErrClosed
	}
	return answer, nil
}

// enter looks the operation up and opens c's savepoint where it may execute.
func (c *claim) enter(req *dedup.ClaimRequest) (dedup.Answer, error) {
	s, w := c.s, c.s.writer
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.intact() {
		return dedup.Answer{}, fmt.Errorf("sqlitestore: claim: %w", ErrRolledBack)
	}
	now := s.now().UnixMicro()
	e, found, err := w.lookup(req.Key)
	if err != nil {
		return dedup.Answer{}, fmt.Errorf("sqlitestore: claim: %w", err)
	}
	if found && e.expires > now {
		return e.answer(req.Fingerprint), nil
	}
	if err := w.savepoint(c.depth); err != nil {
		return dedup.Answer{}, fmt.Errorf("sqlitestore: claim: %w", err)
	}
	s.fence = max(uint64(now), s.fence+1, e.fence+1)
	c.fence = s.fence
	c.tx = &tx{w: w, sessions: s.sessions, aborted: &c.tree.aborted}
	c.hold = &hold{key: req.Key, fingerprint: req.Fingerprint, owner: req.Owner, claim: c, done: make(chan struct{})}
	s.keep(c.hold)
	s.probe("claimed")
	return dedup.Answer{State: dedup.Claimed, Claim: c}, nil
}

// join claims inside c, for c's handler. It says false where c is over, so
// that the request stands for itself. It never waits for another execution.
func (c *claim) join(ctx context.Context, req *dedup.ClaimRequest) (answer dedup.Answer, joined bool, err error) {
	c.tree.Lock()
	defer c.tree.Unlock()
	if c.state != claimLive {
		return dedup.Answer{}, false, nil
	}
	if err := ctx.Err(); err != nil {
		return dedup.Answer{}, true, fmt.Errorf("sqlitestore: claim: %w", err)
	}
	for outer := c; outer != nil; outer = outer.outer {
		if outer.hold.key == req.Key {
			return outer.hold.answer(req), true, nil
		}
	}
	if c.inner == nil {
		answer, err := c.nest(req)
		return answer, true, err
	}
	if c.inner.hold.key == req.Key {
		return c.inner.hold.answer(req), true, nil
	}
	return dedup.Answer{}, true, fmt.Errorf("sqlitestore: claim: %w", ErrNestedOpen)
}

// nest needs tree.
func (c *claim) nest(req *dedup.ClaimRequest) (dedup.Answer, error) {
	inner := &claim{s: c.s, depth: c.depth + 1, tree: c.tree, outer: c}
	answer, err := inner.enter(req)
	if err == nil && answer.State == dedup.Claimed {
		c.inner = inner
		c.tx.block(true)
	}
	return answer, err
}
