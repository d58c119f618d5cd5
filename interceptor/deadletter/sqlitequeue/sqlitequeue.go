// Package sqlitequeue keeps dead letters in an SQLite database, without cgo.
package sqlitequeue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"

	"github.com/retrysafe/retrysafe/interceptor/deadletter"
	"github.com/retrysafe/retrysafe/interceptor/deadletter/internal/sqlqueue"
)

const schema = `
CREATE TABLE IF NOT EXISTS retrysafe_letters_schema (version INTEGER NOT NULL PRIMARY KEY);
INSERT INTO retrysafe_letters_schema (version) SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM retrysafe_letters_schema);
CREATE TABLE IF NOT EXISTS retrysafe_letters (
	id     TEXT NOT NULL PRIMARY KEY,
	letter BLOB NOT NULL
) WITHOUT ROWID;`

// busyTimeout is how long a connection waits for another's lock.
const busyTimeout = 5 * time.Second

// Queue implements [deadletter.Queue]. It is safe for concurrent use, and the
// file may be open in several processes.
type Queue struct {
	*sqlqueue.Queue
	owned *sql.DB // nil where the database is borrowed
}

var _ deadletter.Queue = (*Queue)(nil)

// Open opens the database file, makes it and the table where they are not
// there, and returns its queue. Close closes it.
func Open(ctx context.Context, path string) (*Queue, error) {
	if path == "" || strings.HasPrefix(path, ":") {
		return nil, errors.New("sqlitequeue: open: a queue needs a file")
	}
	uri := url.URL{
		Scheme:   "file",
		Opaque:   (&url.URL{Path: path}).EscapedPath(),
		RawQuery: fmt.Sprintf("_pragma=busy_timeout(%d)&_pragma=synchronous(full)&_txlock=immediate", busyTimeout.Milliseconds()),
	}
	db, err := driver.Open(uri.String())
	if err != nil {
		return nil, fmt.Errorf("sqlitequeue: open: %w", err)
	}
	q, err := openQueue(ctx, db)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	q.owned = db
	return q, nil
}

func openQueue(ctx context.Context, db *sql.DB) (*Queue, error) {
	if err := enterWAL(ctx, db); err != nil {
		return nil, fmt.Errorf("sqlitequeue: open: %w", err)
	}
	return New(ctx, db)
}

// enterWAL puts the file into WAL mode, which lasts. It needs the file to
// itself, and SQLite does not wait for that, whatever the busy timeout.
func enterWAL(ctx context.Context, db *sql.DB) error {
	ctx, cancel := context.WithTimeout(ctx, busyTimeout)
	defer cancel()
	for {
		_, err := db.ExecContext(ctx, `PRAGMA journal_mode = wal`)
		if !errors.Is(err, sqlite3.BUSY) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Millisecond + rand.N(4*time.Millisecond)):
		}
	}
}

// New returns the queue in db, which the caller has opened with the driver of
// github.com/ncruces/go-sqlite3 and goes on to own. It makes the table where it
// is not there.
func New(ctx context.Context, db *sql.DB) (*Queue, error) {
	if db == nil {
		return nil, errors.New("sqlitequeue: new: db is nil")
	}
	q := &Queue{Queue: sqlqueue.New(db, sqlqueue.Dialect{Name: "sqlitequeue", Schema: schema})}
	if err := q.Migrate(ctx); err != nil {
		return nil, err
	}
	return q, nil
}

// Close closes the database that [Open] opened, and nothing else.
func (q *Queue) Close() error {
	if q.owned == nil {
		return nil
	}
	return q.owned.Close()
}
