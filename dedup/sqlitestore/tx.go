package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
)

// ErrNoTx: the context belongs to no execution under a claim of this package's
// stores.
var ErrNoTx = errors.New("sqlitestore: the context carries no transaction")

// Querier is what a handler does its SQL with. It is what *sql.DB, *sql.Tx and
// generated code (sqlc's DBTX) have in common.
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Tx returns the transaction of the execution that ctx belongs to.
func Tx(ctx context.Context) (Querier, error) { return nil, ErrNoTx }
