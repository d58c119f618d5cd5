package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"
)

// busyTimeout is how long a connection waits for another's lock.
const busyTimeout = 5 * time.Second

// OpenSQLite opens the database file at path for a ledger whose outcomes are
// kept elsewhere, and creates it where it does not exist. Several processes may
// use the file. The caller closes the database.
func OpenSQLite(ctx context.Context, path string) (*sql.DB, error) {
	db, err := driver.Open(path, func(c *sqlite3.Conn) error {
		if err := c.BusyTimeout(busyTimeout); err != nil {
			return err
		}
		return c.Exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON`)
	})
	if err != nil {
		return nil, fmt.Errorf("ledger: open: %w", err)
	}
	if err := firstConnection(ctx, db); err != nil {
		return nil, errors.Join(fmt.Errorf("ledger: open: %w", err), db.Close())
	}
	return db, nil
}

// firstConnection connects. A new file goes into WAL mode with the first
// connection, which needs the file to itself, and SQLite does not wait for
// that, whatever the busy timeout.
func firstConnection(ctx context.Context, db *sql.DB) error {
	ctx, cancel := context.WithTimeout(ctx, busyTimeout)
	defer cancel()
	for {
		err := db.PingContext(ctx)
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
