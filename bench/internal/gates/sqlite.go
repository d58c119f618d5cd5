package gates

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/sqlitestore"
)

const sqliteAccountsSQL = `
CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL) STRICT;
CREATE TABLE entry (id INTEGER PRIMARY KEY, account INTEGER NOT NULL, amount INTEGER NOT NULL) STRICT;
WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999)
INSERT INTO account (id, balance) SELECT i, 1000000000 FROM n;`

const (
	sqliteUpdateSQL = `UPDATE account SET balance = balance - ? WHERE id = ?`
	sqliteInsertSQL = `INSERT INTO entry (account, amount) VALUES (?, ?)`
	sqliteRecordSQL = `INSERT INTO retrysafe_outcome
	(scope, method, id, fingerprint_version, fingerprint, fence, recorded_at, expires_at, record)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
)

// file is a database file in a folder of its own, with accounts.
type file struct{ folder, path string }

// newFile makes one, on the disk that holds temporary files.
func newFile(ctx context.Context) (*file, error) {
	folder, err := os.MkdirTemp("", "retrysafe-bench-")
	if err != nil {
		return nil, err
	}
	f := &file{folder, filepath.Join(folder, "bench.db")}
	store, err := f.store(ctx)
	if err == nil {
		_, err = store.DB().ExecContext(ctx, sqliteAccountsSQL)
		err = errors.Join(err, store.Close())
	}
	if err != nil {
		return nil, errors.Join(err, f.remove())
	}
	return f, nil
}

func (f *file) remove() error { return os.RemoveAll(f.folder) }

// store opens a store in the file that sweeps once an hour, unless the options
// say otherwise.
func (f *file) store(ctx context.Context, opts ...sqlitestore.Option) (*sqlitestore.Store, error) {
	return sqlitestore.Open(ctx, f.path, append([]sqlitestore.Option{sqlitestore.WithSweepInterval(time.Hour)}, opts...)...)
}

// direct opens the file for one connection with the settings that the store
// has.
func (f *file) direct() (*sql.DB, error) {
	db, err := driver.Open(f.path, func(c *sqlite3.Conn) error {
		return c.Exec(`PRAGMA busy_timeout = 5000; PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL`)
	})
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

func sqliteHandle(ctx context.Context, q sqlitestore.Querier) error {
	account := int(time.Now().UnixNano() % accounts)
	if _, err := q.ExecContext(ctx, sqliteUpdateSQL, 1, account); err != nil {
		return err
	}
	_, err := q.ExecContext(ctx, sqliteInsertSQL, account, -1)
	return err
}

// sqliteDebit is a debit of two statements under a claim. It returns how long
// the claim took.
func sqliteDebit(ctx context.Context, store *sqlitestore.Store) (time.Duration, error) {
	began := time.Now()
	answer, err := store.Claim(ctx, claimRequest(newKey()))
	took := time.Since(began)
	if err != nil {
		return 0, err
	}
	if answer.State != dedup.Claimed {
		return 0, fmt.Errorf("answered %v", answer.State)
	}
	handling := answer.Claim.Context(ctx)
	tx, err := sqlitestore.Tx(handling)
	if err == nil {
		err = sqliteHandle(handling, tx)
	}
	if err != nil {
		return 0, errors.Join(err, answer.Claim.Release(ctx))
	}
	return took, answer.Claim.Complete(ctx, completion)
}

// sqliteDirectly is what somebody would write who keeps keys and outcomes by
// hand: the same statements in a transaction of database/sql's.
func sqliteDirectly(ctx context.Context, db *sql.DB) error {
	key := newKey()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var found int
	err = tx.QueryRowContext(ctx, `SELECT count(*) FROM retrysafe_outcome WHERE scope = ? AND method = ? AND id = ?`,
		key.Scope, key.Method, key.ID).Scan(&found)
	if err != nil || found > 0 {
		return fmt.Errorf("found %d: %w", found, err)
	}
	if err := sqliteHandle(ctx, tx); err != nil {
		return err
	}
	now := time.Now()
	_, err = tx.ExecContext(ctx, sqliteRecordSQL, key.Scope, key.Method, key.ID, int(debitFingerprint.Version),
		debitFingerprint.Sum[:], now.UnixMicro(), now.UnixMicro(), now.Add(time.Hour).UnixMicro(), record)
	if err != nil {
		return err
	}
	return tx.Commit()
}
