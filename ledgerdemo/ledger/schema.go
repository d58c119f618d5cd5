package ledger

import (
	"context"
	"database/sql"
	"fmt"
)

// schemaVersion is the version of the tables that this program reads and
// writes.
const schemaVersion = 1

// sqliteSchema is version 1. Times are microseconds since 1970, UTC. STRICT
// tables refuse what is not an integer, so that a sum which left 64 bits, and
// which SQLite would go on with as a floating-point number, is an error.
const sqliteSchema = `
CREATE TABLE ledger_accounts (
	id        TEXT    NOT NULL PRIMARY KEY CHECK (length(id) BETWEEN 1 AND 64),
	kind      TEXT    NOT NULL CHECK (kind IN ('customer', 'settlement')),
	currency  TEXT    NOT NULL CHECK (length(currency) = 3),
	balance   INTEGER NOT NULL DEFAULT 0,
	opened_at INTEGER NOT NULL,
	CHECK (kind = 'settlement' OR balance >= 0)
) STRICT, WITHOUT ROWID;

CREATE TABLE ledger_transactions (
	id        INTEGER PRIMARY KEY,
	kind      TEXT    NOT NULL CHECK (kind IN ('debit', 'credit', 'transfer')),
	currency  TEXT    NOT NULL CHECK (length(currency) = 3),
	reference TEXT    NOT NULL CHECK (length(reference) <= 140),
	posted_at INTEGER NOT NULL
) STRICT;

CREATE TABLE ledger_entries (
	id                 INTEGER PRIMARY KEY,
	transaction_id     INTEGER NOT NULL REFERENCES ledger_transactions,
	account_id         TEXT    NOT NULL REFERENCES ledger_accounts,
	counter_account_id TEXT    NOT NULL REFERENCES ledger_accounts,
	amount             INTEGER NOT NULL CHECK (amount <> 0),
	balance_after      INTEGER NOT NULL,
	UNIQUE (transaction_id, account_id),
	CHECK (account_id <> counter_account_id)
) STRICT;

CREATE INDEX ledger_entries_by_account ON ledger_entries (account_id, id);

CREATE TRIGGER ledger_entries_no_update BEFORE UPDATE ON ledger_entries
	BEGIN SELECT RAISE(ABORT, 'entries are never changed'); END;
CREATE TRIGGER ledger_entries_no_delete BEFORE DELETE ON ledger_entries
	BEGIN SELECT RAISE(ABORT, 'entries are never deleted'); END;

INSERT INTO ledger_schema (version) VALUES (1);
`

// migrateSQLite creates the tables where there are none. The transaction is
// immediate, the driver's default, so that of two processes one waits.
func migrateSQLite(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after Commit it does nothing
	if _, err := tx.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS ledger_schema (version INTEGER NOT NULL) STRICT`); err != nil {
		return err
	}
	var version int
	if err := tx.QueryRowContext(ctx, `SELECT coalesce(max(version), 0) FROM ledger_schema`).Scan(&version); err != nil {
		return err
	}
	create, err := outdated(version)
	if err != nil || !create {
		return err
	}
	if _, err := tx.ExecContext(ctx, sqliteSchema); err != nil {
		return err
	}
	return tx.Commit()
}

// outdated reports whether the tables are still to be created, where 0 is the
// version of what is not there.
func outdated(version int) (bool, error) {
	switch version {
	case schemaVersion:
		return false, nil
	case 0:
		return true, nil
	}
	return false, fmt.Errorf("the database has version %d of the ledger, this program knows %d", version, schemaVersion)
}
