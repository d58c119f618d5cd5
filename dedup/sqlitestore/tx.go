package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
)

var (
	// ErrNoTx: the context belongs to no execution under a claim of this
	// package's stores.
	ErrNoTx = errors.New("sqlitestore: the context carries no transaction")
	// ErrRolledBack: SQLite has rolled back the transaction of the execution,
	// because of a statement such as INSERT OR ROLLBACK, because a statement
	// that wrote was interrupted, or because the disk is full or failed.
	ErrRolledBack = errors.New("sqlitestore: the transaction has been rolled back")
	// ErrNestedOpen: the execution has begun another one, inside its own, that
	// has not ended.
	ErrNestedOpen = errors.New("sqlitestore: an execution inside this one is still open")
)

// Querier is what a handler does its SQL with. It is what *sql.DB, *sql.Tx and
// generated code (sqlc's DBTX) have in common.
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Tx returns the transaction of the execution that ctx belongs to. It is safe
// for concurrent use, as *sql.Tx is. Its statements end with their own context
// and with the execution's, whichever ends first.
//
// It returns [ErrNoTx] where there is no execution, and [sql.ErrTxDone] where
// it is settled, as all methods of the Querier do from then on.
func Tx(ctx context.Context) (Querier, error) {
	at := linkFrom(ctx)
	if at == nil {
		return nil, ErrNoTx
	}
	sqlTx, err := at.claim.tx.begin()
	if err != nil {
		return nil, err
	}
	return querier{sqlTx}, nil
}

// querier hides the methods of *sql.Tx that would end it.
type querier struct{ tx *sql.Tx }

func (q querier) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return q.tx.ExecContext(ctx, query, args...)
}

func (q querier) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	return q.tx.PrepareContext(ctx, query)
}

func (q querier) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return q.tx.QueryContext(ctx, query, args...)
}

func (q querier) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return q.tx.QueryRowContext(ctx, query, args...)
}

// tx is the part of the open transaction that belongs to one claim: what its
// handler does in the claim's savepoint. To database/sql it is a transaction
// of its own, on a session that shares the writer.
type tx struct {
	w        *writer
	sessions *sql.DB

	nested    bool            // guarded by w.mu: a claim inside this one is open
	execution context.Context // guarded by w.mu: the handler's, or nil
	aborted   *atomic.Bool    // the store interrupts what the handler runs

	mu    sync.Mutex
	ended bool
	sqlTx *sql.Tx
}

// bind makes the statements end with the execution's context.
func (t *tx) bind(execution context.Context) {
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	t.execution = execution
}

// block keeps the handler's statements out of the savepoint of a claim that is
// nested in it.
func (t *tx) block(nested bool) {
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	t.nested = nested
}

// begin makes database/sql's transaction where there is none yet.
func (t *tx) begin() (*sql.Tx, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return nil, sql.ErrTxDone
	}
	if t.sqlTx == nil {
		sqlTx, err := t.sessions.BeginTx(context.WithValue(context.Background(), sessionTx{}, t), nil)
		if err != nil {
			return nil, err
		}
		t.sqlTx = sqlTx
	}
	return t.sqlTx, nil
}

// end waits for what the handler is running now, and closes its rows and its
// statements. Nothing of the handler's reaches the writer afterwards.
func (t *tx) end() {
	t.mu.Lock()
	t.ended = true
	sqlTx := t.sqlTx
	t.mu.Unlock()
	if sqlTx != nil {
		// It does nothing to the open transaction: see session.Rollback.
		_ = sqlTx.Rollback()
	}
}
