package torture

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/dedup/pgstore"
	"github.com/retrysafe/retrysafe/ledgerdemo/ledger"
)

// pgSchema is the ledger's in PostgreSQL.
const pgSchema = `
CREATE TABLE ledger_accounts (
	id        text   NOT NULL PRIMARY KEY,
	kind      text   NOT NULL CHECK (kind IN ('customer', 'settlement')),
	currency  text   NOT NULL,
	balance   bigint NOT NULL DEFAULT 0,
	opened_at bigint NOT NULL,
	CHECK (kind = 'settlement' OR balance >= 0)
);
CREATE TABLE ledger_transactions (
	id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	kind      text   NOT NULL,
	currency  text   NOT NULL,
	reference text   NOT NULL,
	posted_at bigint NOT NULL
);
CREATE TABLE ledger_entries (
	id                 bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	transaction_id     bigint NOT NULL REFERENCES ledger_transactions,
	account_id         text   NOT NULL REFERENCES ledger_accounts,
	counter_account_id text   NOT NULL REFERENCES ledger_accounts,
	amount             bigint NOT NULL CHECK (amount <> 0),
	balance_after      bigint NOT NULL,
	UNIQUE (transaction_id, account_id)
);`

// pgLedger is the ledger's storage in PostgreSQL. It joins the transaction of
// a transactional store, and makes its own behind any other.
type pgLedger struct{ pool *pgxpool.Pool }

var _ ledger.Storage = pgLedger{}

func (l pgLedger) Write(ctx context.Context, fn func(ledger.Conn) error) error {
	tx, err := pgstore.Tx(ctx)
	if err == nil {
		return fn(pgConn{tx})
	}
	if !errors.Is(err, pgstore.ErrNoTx) {
		return err
	}
	return l.own(ctx, fn)
}

func (l pgLedger) Read(ctx context.Context, fn func(ledger.Conn) error) error { return l.own(ctx, fn) }

// errCommit: whether the transaction was committed is not known, unless the
// server says so.
type errCommit struct{ error }

func (e errCommit) Unwrap() error { return e.error }

func (l pgLedger) own(ctx context.Context, fn func(ledger.Conn) error) error {
	tx, err := l.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after Commit it does nothing
	if err := fn(pgConn{tx}); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return errCommit{err}
	}
	return nil
}

// Transient says that nothing was committed and that the same may be tried
// again: every failure of a connection but that of a commit, and what the
// server says to be so.
func (pgLedger) Transient(err error) bool {
	var said *pgconn.PgError
	if errors.As(err, &said) {
		switch said.Code[:2] {
		case "40": // rolled back: serialization failure, deadlock
			return true
		case "57", "53", "08": // shut down, out of resources, connection
			return !errors.As(err, new(errCommit))
		}
		return false
	}
	return !errors.As(err, new(errCommit))
}

type pgConn struct{ pgx.Tx }

func (c pgConn) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	tag, err := c.Tx.Exec(ctx, query, args...)
	return tag.RowsAffected(), err
}

func (c pgConn) One(ctx context.Context, query string, args []any, dest ...any) (bool, error) {
	err := c.QueryRow(ctx, query, args...).Scan(dest...)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

func (c pgConn) Each(ctx context.Context, query string, args []any, fn func(scan func(dest ...any) error) error) error {
	rows, err := c.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := fn(rows.Scan); err != nil {
			return fmt.Errorf("scan: %w", err)
		}
	}
	return rows.Err()
}
