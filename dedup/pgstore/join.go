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
	err = t.do(func() (err error) {
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
	sql, name := &s.store.sql, joined(s.depth+1)
	var b pgx.Batch
	b.Queue(sql.lock, id.lock()).QueryRow(func(row pgx.Row) error { return row.Scan(&seen.locked) })
	b.Queue(sql.look, id.scope, id.method, id.id).QueryRow(seen.scan)
	b.Queue("savepoint " + name)
	if err := s.conn.SendBatch(ctx, &b).Close(); err != nil {
		return dedup.Answer{}, err
	}
	if !seen.recorded() && seen.locked {
		s.depth++
		s.held[req.Key] = struct{}{}
		c := &claim{session: s, tx: newTransaction(s), id: id, req: req, fence: *seen.fence, depth: s.depth}
		return dedup.Answer{State: dedup.Claimed, Claim: c}, nil
	}
	if _, err := s.conn.Exec(ctx, "release savepoint "+name); err != nil {
		return dedup.Answer{}, err
	}
	answer, err := seen.answer(req)
	if !errors.Is(err, errExpired) {
		return answer, err
	}
	if _, err := s.conn.Exec(ctx, sql.forget, id.scope, id.method, id.id); err != nil {
		return dedup.Answer{}, err
	}
	return s.join(ctx, id, req)
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
	var b pgx.Batch
	if completion.Undo {
		b.Queue("rollback to savepoint " + joined(c.depth))
	}
	c.queueRecord(&b, completion)
	b.Queue("release savepoint " + joined(c.depth))
	if err := c.session.conn.SendBatch(ctx, &b).Close(); err != nil {
		return c.explain(err)
	}
	return nil
}

func (c *claim) releaseJoined(ctx context.Context) error {
	return c.leave(func() error { return c.undoJoined(ctx) })
}

func (c *claim) undoJoined(ctx context.Context) error {
	name := joined(c.depth)
	if _, err := c.session.conn.Exec(ctx, "rollback to savepoint "+name+"; release savepoint "+name); err != nil {
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
	if s.depth != c.depth {
		return errOrder
	}
	s.depth--
	delete(s.held, c.req.Key)
	return f()
}
