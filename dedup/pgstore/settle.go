package pgstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
)

// claim is the right to execute an operation: an open transaction, or a
// savepoint in one.
type claim struct {
	session *session
	tx      *transaction
	id      identity
	req     dedup.ClaimRequest
	fence   int64
	place   []byte // where its row is, or nil
	depth   int    // 0, or the number of its savepoint in another's transaction

	mu      sync.Mutex
	settled settlement
	failure error // why Complete failed
}

type settlement uint8

const (
	unsettled settlement = iota
	completed
	failed
	released
)

func newClaim(sess *session, id identity, req dedup.ClaimRequest, seen sighting) dedup.Answer {
	sess.began = seen.began
	sess.held = map[dedup.Key]struct{}{req.Key: {}}
	c := &claim{session: sess, tx: newTransaction(sess), id: id, req: req, fence: seen.fence, place: seen.place}
	return dedup.Answer{State: dedup.Claimed, Claim: c}
}

// Fence implements [dedup.Claim].
func (c *claim) Fence() uint64 { return uint64(c.fence) }

// Attempt implements [dedup.Claim]. An attempt that was rolled back has left
// nothing to count.
func (c *claim) Attempt() int { return 1 }

// Context implements [dedup.Claim]. [Tx] finds the transaction in it.
func (c *claim) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, txKey{}, c.tx)
}

// Renew implements [dedup.Claim]. A transaction lasts until it is ended.
func (c *claim) Renew(_ context.Context, lease time.Duration) error {
	if err := checkDuration("lease", lease); err != nil {
		return err
	}
	// Complete holds mu while it talks to the server, and a renewal need not
	// wait for that.
	if c.tx.over() {
		return dedup.ErrLeaseLost
	}
	return nil
}

// Complete implements [dedup.Claim].
func (c *claim) Complete(ctx context.Context, completion dedup.Completion) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.settled {
	case completed:
		return nil
	case failed:
		return c.failure
	case released:
		return dedup.ErrLeaseLost
	}
	c.tx.settled.Store(true)
	if err := c.complete(ctx, completion); err != nil {
		c.settled, c.failure = failed, err
		return err
	}
	c.settled = completed
	return nil
}

func (c *claim) complete(ctx context.Context, completion dedup.Completion) error {
	if c.depth > 0 {
		return c.completeJoined(ctx, completion)
	}
	err := errors.Join(checkCompletion(completion), c.session.end())
	if err == nil {
		err = c.commit(ctx, completion)
	}
	if err != nil {
		_ = c.session.rollback() // where it fails the connection is closed
		return err
	}
	c.session.finish()
	return nil
}

// commit records the outcome and commits, in one trip. Where a statement fails,
// the server skips those after it, COMMIT included.
func (c *claim) commit(ctx context.Context, completion dedup.Completion) error {
	s := c.session.store
	t, err := s.newTrip(ctx, c.session.pgx())
	if err != nil {
		return explain("complete", err)
	}
	if completion.Undo {
		t.add(&s.sql.undo)
	}
	c.addRecord(t, completion)
	t.add(&s.sql.commit)
	tag, err := t.send(ctx, noRow)
	if err != nil {
		return s.explainComplete(err)
	}
	if tag.String() != "COMMIT" {
		return fmt.Errorf("pgstore: complete: the server answered %q to COMMIT", tag)
	}
	s.recent.add(c.id.lock())
	return nil
}

func (c *claim) addRecord(t *trip, completion dedup.Completion) {
	sql := &c.session.store.sql
	record, retention := notNull(completion.Record), int8Param(completion.Retention.Microseconds())
	if c.place != nil {
		t.add(&sql.fill, c.place, int8Param(c.fence), record, retention, c.session.began)
		return
	}
	f := &c.req.Fingerprint
	t.add(&sql.record, c.id.id, c.id.method, c.id.scope, int2Param(uint8(f.Version)), f.Sum[:],
		int8Param(c.fence), record, retention, c.session.began)
}

// explainComplete tells an operation that another has recorded from other
// failures. It keeps the server's error out of it, which can show the key.
func (s *Store) explainComplete(err error) error {
	if isRecorded(err) {
		return fmt.Errorf("pgstore: complete: another has recorded the operation, or its handler has ended the transaction: %w", dedup.ErrLeaseLost)
	}
	if isOutOfPartitions(err) {
		s.partitions.distrust()
	}
	return explain("complete", err)
}

// Release implements [dedup.Claim]. It returns an error where the connection
// is lost, so that the server may roll back later only.
func (c *claim) Release(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.settled {
	case released:
		return nil
	case completed, failed:
		return dedup.ErrLeaseLost
	}
	c.tx.settled.Store(true)
	c.settled = released
	if c.depth > 0 {
		return c.releaseJoined(ctx)
	}
	busy := c.session.end()
	if err := errors.Join(busy, c.session.rollback()); err != nil {
		return explain("release", err)
	}
	return nil
}
