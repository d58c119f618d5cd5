package pgstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/retrysafe/retrysafe/dedup"
)

// rollbackTimeout bounds the ROLLBACK that no caller waits for any more. A
// connection that does not answer in that time is closed.
const rollbackTimeout = 2 * time.Second

var errBusy = errors.New("the handler still uses its transaction, or has left rows or a batch open")

// session is a connection of the pool and, for as long as it lasts, the
// transaction of one claim and of those that have joined it.
type session struct {
	store *Store
	conn  *pgxpool.Conn
	began []byte // when the transaction began, as now() has it
	over  atomic.Bool

	mu         sync.Mutex             // held by whoever talks to the server
	held       map[dedup.Key]struct{} // the operations that execute in it
	joined     int                    // savepoints of claims that have joined
	savepoints int64                  // savepoints that handlers have made
}

func (s *Store) acquire(ctx context.Context) (*session, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return &session{store: s, conn: conn}, nil
}

// pgx is the connection itself.
func (s *session) pgx() *pgx.Conn { return s.conn.Conn() }

// trip makes a trip with what add puts into it.
func (s *session) trip(ctx context.Context, add func(*trip), row func(statement int, values [][]byte)) error {
	t, err := s.store.newTrip(ctx, s.pgx())
	if err != nil {
		return err
	}
	add(t)
	_, err = t.send(ctx, row)
	return err
}

// once makes a trip on a connection of its own, which leaves no transaction
// open.
func (s *Store) once(ctx context.Context, add func(*trip), row func(statement int, values [][]byte)) error {
	sess, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	if err := sess.trip(ctx, add, row); err != nil {
		_ = sess.rollback() // where it fails the connection is closed
		return err
	}
	sess.finish()
	return nil
}

// belongs says whether the session is of the store's storage.
func (s *session) belongs(store *Store) bool {
	return s.store.pool == store.pool && s.store.table == store.table
}

// end takes the connection from the handler for good. It fails where the
// handler has not let go of it; the connection is useless then.
func (s *session) end() error {
	s.over.Store(true)
	if !s.mu.TryLock() {
		// The handler has returned and left a goroutine behind that waits for
		// the server. Only this ends it, and it would run into the settlement.
		_ = s.pgx().PgConn().Conn().Close()
		s.mu.Lock()
		return errBusy
	}
	if s.pgx().PgConn().IsBusy() {
		return errBusy
	}
	return nil
}

// finish returns the connection to the pool, which closes it where it is not
// idle and outside of a transaction.
func (s *session) finish() { s.conn.Release() }

// rollback undoes everything and returns the connection to the pool. It
// returns an error where it is not known that the server has done it; the
// connection is closed then.
func (s *session) rollback() error {
	defer s.finish()
	pg := s.pgx().PgConn()
	switch {
	case pg.IsClosed():
		return errors.New("the connection was lost")
	case pg.IsBusy():
		return errBusy
	case pg.TxStatus() == 'I':
		return nil
	}
	// Not the caller's context: the connection is worth keeping, and locks are
	// to be let go, when the caller has gone.
	ctx, cancel := context.WithTimeout(context.Background(), rollbackTimeout)
	defer cancel()
	return pg.Exec(ctx, "ROLLBACK").Close()
}
