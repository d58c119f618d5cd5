package ledger

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// postgresSchema is version 1, with the same rules as SQLite's. Times are
// microseconds since 1970, UTC.
const postgresSchema = `
CREATE TABLE ledger_accounts (
	id        text   NOT NULL PRIMARY KEY CHECK (length(id) BETWEEN 1 AND 64),
	kind      text   NOT NULL CHECK (kind IN ('customer', 'settlement')),
	currency  text   NOT NULL CHECK (length(currency) = 3),
	balance   bigint NOT NULL DEFAULT 0,
	opened_at bigint NOT NULL,
	CHECK (kind = 'settlement' OR balance >= 0)
);

CREATE TABLE ledger_transactions (
	id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	kind      text   NOT NULL CHECK (kind IN ('debit', 'credit', 'transfer')),
	currency  text   NOT NULL CHECK (length(currency) = 3),
	reference text   NOT NULL CHECK (length(reference) <= 140),
	posted_at bigint NOT NULL
);

CREATE TABLE ledger_entries (
	id                 bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	transaction_id     bigint NOT NULL REFERENCES ledger_transactions,
	account_id         text   NOT NULL REFERENCES ledger_accounts,
	counter_account_id text   NOT NULL REFERENCES ledger_accounts,
	amount             bigint NOT NULL CHECK (amount <> 0),
	balance_after      bigint NOT NULL,
	UNIQUE (transaction_id, account_id),
	CHECK (account_id <> counter_account_id)
);

CREATE INDEX ledger_entries_by_account ON ledger_entries (account_id, id);

CREATE FUNCTION ledger_entries_stay() RETURNS trigger LANGUAGE plpgsql AS
	$$ BEGIN RAISE EXCEPTION 'entries are never changed and never deleted'; END $$;
CREATE TRIGGER ledger_entries_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_entries
	FOR EACH STATEMENT EXECUTE FUNCTION ledger_entries_stay();

INSERT INTO ledger_schema (version) VALUES (1);
`

// migrationLock is the number of the advisory lock under which one process at
// a time creates the tables: "rsledger" in ASCII.
const migrationLock int64 = 0x72736c6564676572

// migratePostgres creates the tables where there are none. It reads at READ
// COMMITTED, whatever the database's default, so that who waited for the lock
// sees what its last holder committed.
func migratePostgres(ctx context.Context, pool *pgxpool.Pool) error {
	return pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, migrationLock); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS ledger_schema (version integer NOT NULL)`); err != nil {
			return err
		}
		var version int
		if err := tx.QueryRow(ctx, `SELECT coalesce(max(version), 0) FROM ledger_schema`).Scan(&version); err != nil {
			return err
		}
		create, err := outdated(version)
		if err != nil || !create {
			return err
		}
		_, err = tx.Exec(ctx, postgresSchema)
		return err
	})
}
