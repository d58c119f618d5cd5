package pgstore

import (
	"context"
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/retrysafe/retrysafe/dedup"
)

// errOrder: claims that have joined one transaction are settled in the order
// opposite to that of their making, as calls return.
var errOrder = errors.New("pgstore: a claim that was made within this one is not settled yet")

// join makes a claim in the transaction of the handler that asks for it, under
// a savepoint. Nobody waits in here: the transaction holds locks that the one
// who is waited for may want.
func (t *transaction) join(ctx context.Context, id identity, req dedup.ClaimRequest) (answer dedup.Answer, err error) {
	err = t.do(func(*pgx.Conn) (err error) {
		answer, err = t.session.join(ctx, id, req)
		return err
	})
	if err != nil {
		return dedup.Answer{}, explain("claim within a transaction", err)
	}
	return answer, nil
}

func (s *session) join(ctx context.Context, id identity, req dedup.ClaimRequest) (dedup.Answer, error) {
	if _, own := s.held[req.Key]; own {
		return dedup.Answer{State: dedup.InProgress}, nil
	}
	var seen sighting
	sql, name, lock := &s.store.sql, joined(s.joined+1), id.lock()
	err := s.trip(ctx, func(t *trip) {
		t.add(&sql.lock, int8Param(lock))
		t.add(&sql.look, id.id, id.method, id.scope)
		t.addText("SAVEPOINT " + name)
	}, func(statement int, values [][]byte) {
		if statement == 0 {
			seen.readLock(values)
		} else {
			seen.readOutcome(values)
		}
	})
	if err != nil {
		return dedup.Answer{}, err
	}
	if seen.locked && !seen.outcome {
		s.joined++
		s.held[req.Key] = struct{}{}
		c := &claim{session: s, tx: newTransaction(s), id: id, req: req, fence: seen.fence, depth: s.joined}
		return dedup.Answer{State: dedup.Claimed, Claim: c}, nil
	}
	answer, err := s.store.judge(lock, req, seen, nil)
	if err := s.abandon(ctx, name, id, errors.Is(err, errExpired)); err != nil {
		return dedup.Answer{}, err
	}
	if errors.Is(err, errExpired) {
		return s.join(ctx, id, req)
	}
	return answer, err
}

// abandon releases the savepoint of a claim that was not given, and deletes an
// outcome that has expired.
func (s *session) abandon(ctx context.Context, name string, id identity, expired bool) error {
	return s.trip(ctx, func(t *trip) {
		t.addText("RELEASE SAVEPOINT " + name)
		if expired {
			t.add(&s.store.sql.forget, id.id, id.method, id.scope)
		}
	}, noRow)
}

func joined(depth int) string { return savepoint + "_" + strconv.Itoa(depth) }

// completeJoined records the outcome in the transaction that was joined. Where
// it fails, what the claim's handler wrote is undone, and the outer handler
// can go on.
func (c *claim) completeJoined(ctx context.Context, completion dedup.Completion) error {
	return c.leave(func() error {
		err := checkCompletion(completion)
		if err == nil {
			err = c.recordJoined(ctx, completion)
		}
		if err != nil {
			return errors.Join(err, c.undoJoined(ctx))
		}
		return nil
	})
}

func (c *claim) recordJoined(ctx context.Context, completion dedup.Completion) error {
	err := c.session.trip(ctx, func(t *trip) {
		if completion.Undo {
			t.addText("ROLLBACK TO SAVEPOINT " + joined(c.depth))
		}
		c.addRecord(t, completion)
		t.addText("RELEASE SAVEPOINT " + joined(c.depth))
	}, noRow)
	if err != nil {
		return c.session.store.explainComplete(err)
	}
	return nil
}

func (c *claim) releaseJoined(ctx context.Context) error {
	return c.leave(func() error { return c.undoJoined(ctx) })
}

func (c *claim) undoJoined(ctx context.Context) error {
	err := c.session.trip(ctx, func(t *trip) {
		t.addText("ROLLBACK TO SAVEPOINT " + joined(c.depth))
		t.addText("RELEASE SAVEPOINT " + joined(c.depth))
	}, noRow)
	if err != nil {
		return explain("undo", err)
	}
	return nil
}

// leave settles a claim that has joined, with f.
func (c *claim) leave(f func() error) error {
	s := c.session
	if !s.mu.TryLock() {
		return errInUse
	}
	defer s.mu.Unlock()
	if s.over.Load() {
		return dedup.ErrLeaseLost
	}
	if s.joined != c.depth {
		return errOrder
	}
	s.joined--
	delete(s.held, c.req.Key)
	return f()
}
