package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"
)

// OpenSQLite opens the database file at path for a ledger whose outcomes are
// kept elsewhere, and creates it where it does not exist. Several processes may
// use the file. The caller closes the database.
func OpenSQLite(ctx context.Context, path string) (*sql.DB, error) {
	db, err := driver.Open(path, func(c *sqlite3.Conn) error {
		if err := c.BusyTimeout(5 * time.Second); err != nil {
			return err
		}
		return c.Exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON`)
	})
	if err != nil {
		return nil, fmt.Errorf("ledger: open: %w", err)
	}
	if err := db.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("ledger: open: %w", err), db.Close())
	}
	return db, nil
}
