package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/retrysafe/retrysafe/ledgerdemo/database"
	"github.com/retrysafe/retrysafe/ledgerdemo/ledger"
)

// Open opens a ledger's database for [Run]. The caller closes it.
func Open(ctx context.Context, at database.URL) (*sql.DB, error) {
	switch at.Kind {
	case database.SQLite:
		return ledger.OpenSQLite(ctx, at.Address)
	case database.PostgreSQL:
		return openPostgres(ctx, at)
	}
	return nil, fmt.Errorf("audit: a ledger is not kept in %v", at.Kind)
}

// openPostgres makes each transaction see one state of the database. That
// cannot be asked of BeginTx: SQLite, where it always is so, refuses the name.
func openPostgres(ctx context.Context, at database.URL) (*sql.DB, error) {
	at, err := at.With(map[string]string{"default_transaction_isolation": "repeatable read"})
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("pgx", at.Address)
	if err != nil {
		return nil, fmt.Errorf("audit: open %v: %w", at, err)
	}
	if err := db.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("audit: open %v: %w", at, err), db.Close())
	}
	return db, nil
}
