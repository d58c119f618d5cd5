package storetest

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
)

// tx is a claim of a txStore: a transaction, or a savepoint of its outer one.
type tx struct {
	store       *txStore
	outer       *tx
	key         dedup.Key
	fingerprint dedup.Fingerprint
	owner       dedup.Owner
	fence       uint64
	generation  int
	begun       time.Time

	state  txState
	spoilt bool
	keys   []dedup.Key // that it holds: its own and those of nested claims
	writes map[string]bool
	rows   map[dedup.Key]txRow
}

type txState uint8

const (
	txOpen txState = iota
	txCommitted
	txReleased
	txFailed
)

var _ dedup.Claim = (*tx)(nil)

var errDead = errors.New("the transaction is gone")

func (c *tx) Fence() uint64 { return c.fence }

func (c *tx) Attempt() int { return 1 }

func (c *tx) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, txKey{}, c)
}

// open says whether the claim and all around it are open.
func (c *tx) open() bool {
	return c.state == txOpen && c.generation == c.store.generation && (c.outer == nil || c.outer.open())
}

// within says whether holder is the claim or one around it.
func (c *tx) within(holder *tx) bool {
	return c != nil && (c == holder || c.outer.within(holder))
}

func (c *tx) Complete(ctx context.Context, done dedup.Completion) error {
	s := c.store
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case c.state == txCommitted:
		return nil
	case c.state != txOpen:
		return dedup.ErrLeaseLost
	case !c.open():
		return errDead
	}
	if err := c.refuse(ctx, done); err != nil {
		if s.bug == refusalKeepsWrites {
			maps.Copy(s.written, c.writes)
		}
		c.end(txFailed)
		return err
	}
	if done.Undo {
		c.undo()
	}
	if c.spoilt {
		c.end(txFailed)
		if s.bug == overlooksFailure {
			return nil
		}
		return errors.New("the transaction is spoilt")
	}
	c.commit(done)
	return nil
}

func (c *tx) refuse(ctx context.Context, done dedup.Completion) error {
	s := c.store
	switch {
	case ctx.Err() != nil && s.bug != completeIgnoresContext:
		return ctx.Err()
	case done.Retention < time.Millisecond && s.bug != anyRetention:
		return errors.New("the retention is below a millisecond")
	case len(done.Record) > referenceMaxRecord:
		return dedup.ErrTooLarge
	}
	return nil
}

func (c *tx) undo() {
	s := c.store
	switch s.bug {
	case undoKeepsWrites:
		return
	case undoesOthersToo:
		for _, other := range s.holders {
			clear(other.writes)
		}
	case nestedUndoUndoesAll:
		if c.outer != nil {
			clear(c.outer.writes)
		}
	}
	clear(c.writes)
	if s.bug != nestedRecordsSurvive {
		clear(c.rows)
	}
	if s.bug != failurePreventsUndo {
		c.spoilt = false
	}
}

// commit makes what is staged durable, or the outer claim's.
func (c *tx) commit(done dedup.Completion) {
	s := c.store
	from := time.Now()
	if s.bug == retentionCountsFromClaim {
		from = c.begun
	}
	if !(done.Undo && s.bug == undoDropsRecord) {
		c.rows[c.key] = txRow{c.fingerprint, bytes.Clone(done.Record), from.Add(done.Retention)}
	}
	writes, rows := s.written, s.rows
	if c.outer != nil && s.bug != nestedCommitsAtOnce {
		writes, rows = c.outer.writes, c.outer.rows
		for _, key := range c.keys {
			s.holders[key] = c.outer
		}
		c.outer.keys = append(c.outer.keys, c.keys...)
		c.keys = nil
	}
	if s.bug != recordsWithoutWrites {
		maps.Copy(writes, c.writes)
	}
	maps.Copy(rows, c.rows)
	c.end(txCommitted)
}

// end settles the claim and lets others have what it held.
func (c *tx) end(state txState) {
	s := c.store
	c.state = state
	if c.generation != s.generation {
		return
	}
	for _, key := range c.keys {
		if s.holders[key] == c {
			delete(s.holders, key)
		}
	}
	if s.writer == c {
		s.writer = nil
	}
	s.notify()
}

func (c *tx) Renew(context.Context, time.Duration) error { return nil }

func (c *tx) Release(ctx context.Context) error {
	s := c.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.state != txOpen {
		if c.state == txReleased {
			return nil
		}
		return dedup.ErrLeaseLost
	}
	if ctx.Err() != nil && s.bug == releaseWithoutTimeHolds {
		c.state = txReleased
		return ctx.Err()
	}
	switch s.bug {
	case releaseKeepsWrites:
		maps.Copy(s.written, c.writes)
	case nestedRecordsSurvive:
		delete(c.rows, c.key)
		maps.Copy(s.rows, c.rows)
	case nestedReleaseUndoesAll:
		if c.outer != nil {
			clear(c.outer.writes)
		}
	}
	c.end(txReleased)
	return nil
}
