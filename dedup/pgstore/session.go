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

// savepoint is where the writes of a claim's handler begin.
const savepoint = "retrysafe"

var errBusy = errors.New("the handler still uses its transaction, or has left rows or a batch open")

// session is a connection of the pool in a transaction of the store's: that of
// one claim and of those that have joined it. mu is held by whoever talks to
// the server.
type session struct {
	store *Store
	conn  *pgxpool.Conn
	tx    pgx.Tx // what pgx knows the transaction as
	mu    sync.Mutex
	over  atomic.Bool

	// Guarded by mu.
	held  map[dedup.Key]struct{} // the operations that execute in it
	depth int                    // savepoints of claims that have joined
}

// begin sends BEGIN, what add queues, and the handler's savepoint in one trip.
// read reads the results of what add queued. Where there is an error the
// session is over.
func (s *Store) begin(ctx context.Context, add func(*pgx.Batch), read func(pgx.BatchResults) error) (*session, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	var b pgx.Batch
	b.BeginTx(pgx.TxOptions{IsoLevel: s.config.isolation})
	add(&b)
	b.Queue("savepoint " + savepoint)
	results := conn.SendBatch(ctx, &b)
	sess := &session{store: s, conn: conn, tx: results.Tx()}
	if _, err := results.Exec(); err == nil {
		err = read(results)
		if err != nil {
			_ = results.Close()
			sess.rollback()
			return nil, err
		}
	}
	if err := results.Close(); err != nil {
		sess.rollback()
		return nil, err
	}
	return sess, nil
}

// belongs says whether the session is of the store's storage.
func (s *session) belongs(store *Store) bool {
	return s.store.pool == store.pool && s.store.sql.record == store.sql.record
}

// end takes the connection from the handler for good. It fails where the
// handler has not let go of it; the connection is useless then.
func (s *session) end() error {
	s.over.Store(true)
	if !s.mu.TryLock() {
		// The handler has returned and left a goroutine behind that waits for
		// the server. Only this ends it, and it would run into the settlement.
		_ = s.conn.Conn().PgConn().Conn().Close()
		s.mu.Lock()
		return errBusy
	}
	if s.conn.Conn().PgConn().IsBusy() {
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
	pg := s.conn.Conn().PgConn()
	if pg.IsClosed() {
		return errors.New("the connection was lost")
	}
	if pg.IsBusy() {
		return errBusy
	}
	if pg.TxStatus() == 'I' {
		return nil
	}
	// Not the caller's context: the connection is worth keeping, and locks are
	// to be let go, when the caller has gone.
	ctx, cancel := context.WithTimeout(context.Background(), rollbackTimeout)
	defer cancel()
	_, err := s.conn.Exec(ctx, "rollback")
	return err
}
