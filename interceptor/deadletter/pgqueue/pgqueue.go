// Package pgqueue keeps dead letters in a PostgreSQL database.
package pgqueue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/retrysafe/retrysafe/interceptor/deadletter"
	"github.com/retrysafe/retrysafe/interceptor/deadletter/internal/sqlqueue"
)

const schema = `
CREATE TABLE IF NOT EXISTS retrysafe_letters_schema (version integer NOT NULL PRIMARY KEY);
INSERT INTO retrysafe_letters_schema (version) SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM retrysafe_letters_schema);
CREATE TABLE IF NOT EXISTS retrysafe_letters (
	id     text COLLATE "C" NOT NULL PRIMARY KEY,
	letter bytea NOT NULL
);`

// lock keeps replicas that start together from making the table together,
// which IF NOT EXISTS alone does not.
const lock = `SELECT pg_advisory_xact_lock(hashtextextended('retrysafe_letters', 0))`

// Queue implements [deadletter.Queue]. It is safe for concurrent use, by many
// processes.
type Queue struct {
	*sqlqueue.Queue
	db    *sql.DB
	owned *pgxpool.Pool // nil where the pool is borrowed
}

var _ deadletter.Queue = (*Queue)(nil)

// Open connects to the database and returns its queue. It makes the table
// where it is not there. Close closes the connections.
func Open(ctx context.Context, url string) (*Queue, error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("pgqueue: open: %w", err)
	}
	q, err := New(ctx, pool)
	if err != nil {
		pool.Close()
		return nil, err
	}
	q.owned = pool
	return q, nil
}

// New returns the queue in pool's database and leaves the pool to the caller,
// who closes it after the queue. It makes the table where it is not there.
func New(ctx context.Context, pool *pgxpool.Pool) (*Queue, error) {
	if pool == nil {
		return nil, errors.New("pgqueue: new: the pool is nil")
	}
	db := stdlib.OpenDBFromPool(pool)
	q := &Queue{Queue: sqlqueue.New(db, sqlqueue.Dialect{Name: "pgqueue", Schema: schema, Lock: lock}), db: db}
	if err := q.Migrate(ctx); err != nil {
		_ = db.Close()
		return nil, err
	}
	return q, nil
}

// Close gives back what the queue holds of the pool, and closes the pool that
// [Open] made.
func (q *Queue) Close() error {
	err := q.db.Close()
	if q.owned != nil {
		q.owned.Close()
	}
	return err
}
