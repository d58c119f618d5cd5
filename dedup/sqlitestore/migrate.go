package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// migrations make the schema, the n-th the version n+1. One that was released
// is never changed.
//
// Times are microseconds since 1970. The key is indexed as it is: time-ordered
// keys append.
var migrations = [...]string{
	`CREATE TABLE retrysafe_outcome (
		seq                 INTEGER PRIMARY KEY,
		scope               TEXT    NOT NULL,
		method              TEXT    NOT NULL,
		id                  TEXT    NOT NULL,
		fingerprint_version INTEGER NOT NULL,
		fingerprint         BLOB    NOT NULL,
		fence               INTEGER NOT NULL,
		recorded_at         INTEGER NOT NULL,
		expires_at          INTEGER NOT NULL,
		record              BLOB    NOT NULL,
		UNIQUE (scope, method, id)
	) STRICT;
	CREATE INDEX retrysafe_outcome_expiry ON retrysafe_outcome (expires_at);`,
}

// ErrSchema: the database does not have the store's tables in the version that
// this package knows.
var ErrSchema = errors.New("sqlitestore: schema does not fit")

// Migrate creates the store's tables in db, or brings them up to date, and
// puts the file into WAL mode, which lasts. The tables are named retrysafe_*
// and may live beside the user's own. Several processes may call it at once;
// where there is nothing to do it does nothing. A schema newer than this
// package is left alone and answered with [ErrSchema].
func Migrate(ctx context.Context, db *sql.DB) error {
	if db == nil {
		return errors.New("sqlitestore: migrate: db is nil")
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("sqlitestore: migrate: %w", err)
	}
	defer conn.Close()
	if err := migrate(ctx, conn); err != nil {
		return fmt.Errorf("sqlitestore: migrate: %w", err)
	}
	return nil
}

func migrate(ctx context.Context, conn *sql.Conn) error {
	var encoding string
	if err := conn.QueryRowContext(ctx, `PRAGMA encoding`).Scan(&encoding); err != nil {
		return err
	}
	if encoding != "UTF-8" {
		return fmt.Errorf("%w: the database's encoding is %s, and keys need UTF-8 to be kept byte for byte", ErrSchema, encoding)
	}
	if err := enterWAL(ctx, conn); err != nil {
		return err
	}
	if v, err := schemaVersion(ctx, conn); err != nil || v == len(migrations) {
		return err
	}
	if err := retryBusy(ctx, func() error {
		_, err := conn.ExecContext(ctx, `BEGIN IMMEDIATE`)
		return err
	}); err != nil {
		return err
	}
	err := upgrade(ctx, conn)
	if err == nil {
		_, err = conn.ExecContext(ctx, `COMMIT`)
	}
	if err != nil {
		// An error here says that SQLite has rolled back already.
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), `ROLLBACK`)
	}
	return err
}

// upgrade runs inside a transaction: it looks again at what is there, because
// another process may have been first.
func upgrade(ctx context.Context, conn *sql.Conn) error {
	version, err := schemaVersion(ctx, conn)
	if err != nil {
		return err
	}
	if version == 0 {
		_, err := conn.ExecContext(ctx, `
			CREATE TABLE IF NOT EXISTS retrysafe_schema (version INTEGER NOT NULL) STRICT;
			DELETE FROM retrysafe_schema;
			INSERT INTO retrysafe_schema (version) VALUES (0);`)
		if err != nil {
			return err
		}
	}
	for ; version < len(migrations); version++ {
		if _, err := conn.ExecContext(ctx, migrations[version]); err != nil {
			return fmt.Errorf("version %d: %w", version+1, err)
		}
	}
	_, err = conn.ExecContext(ctx, `UPDATE retrysafe_schema SET version = ?`, version)
	return err
}

// schemaVersion is 0 where there is no schema. It refuses a version that it
// does not know.
func schemaVersion(ctx context.Context, conn *sql.Conn) (int, error) {
	var tables int
	err := conn.QueryRowContext(ctx,
		`SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'retrysafe_schema'`).Scan(&tables)
	if err != nil || tables == 0 {
		return 0, err
	}
	var version int
	err = conn.QueryRowContext(ctx, `SELECT version FROM retrysafe_schema`).Scan(&version)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if version < 0 || version > len(migrations) {
		return 0, fmt.Errorf("%w: it has version %d, this program knows up to %d: use a newer program",
			ErrSchema, version, len(migrations))
	}
	return version, nil
}

// enterWAL needs the file to itself where it is not in WAL mode yet.
func enterWAL(ctx context.Context, conn *sql.Conn) error {
	var mode string
	err := retryBusy(ctx, func() error {
		return conn.QueryRowContext(ctx, `PRAGMA journal_mode = WAL`).Scan(&mode)
	})
	if err != nil {
		return fmt.Errorf("WAL mode: %w", err)
	}
	if mode != "wal" {
		return fmt.Errorf("%w: the database cannot be put into WAL mode, it stays in mode %q (an in-memory database, or a file system without shared memory?)",
			ErrSchema, mode)
	}
	return nil
}

// retryBusy repeats f while another connection is in its way.
func retryBusy(ctx context.Context, f func() error) error {
	for {
		err := f()
		if !errors.Is(err, sqlite3.BUSY) {
			return err
		}
		if e := pause(ctx, nil, pollInterval()); e != nil {
			return errors.Join(e, err)
		}
	}
}

// requireSchema is the check of a store that does not migrate.
func requireSchema(ctx context.Context, conn *sql.Conn) error {
	version, err := schemaVersion(ctx, conn)
	if err != nil {
		return err
	}
	if version != len(migrations) {
		return fmt.Errorf("%w: it has version %d, this program needs %d: call Migrate", ErrSchema, version, len(migrations))
	}
	var mode string
	if err := conn.QueryRowContext(ctx, `PRAGMA journal_mode`).Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("%w: the database is in journal mode %q, not in WAL mode: call Migrate", ErrSchema, mode)
	}
	return nil
}

// pause sleeps for d, or until ctx or stop end.
func pause(ctx context.Context, stop <-chan struct{}, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-stop:
		return ErrClosed
	}
}
