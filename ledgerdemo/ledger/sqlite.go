package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"github.com/retrysafe/retrysafe/dedup/sqlitestore"
)

// SQLite is a [Storage] in an SQLite database.
//
// Write joins the transaction of package sqlitestore that the context carries.
// Where it carries none, because the call is not deduplicated, it makes one of
// its own.
type SQLite struct {
	db *sql.DB
	// writer is held by the one own transaction at a time: SQLite has one
	// writer, and its own waiting is a poll.
	writer chan struct{}
}

var _ Storage = (*SQLite)(nil)

// NewSQLite creates or checks the ledger's tables in db, which stays the
// caller's to close.
func NewSQLite(ctx context.Context, db *sql.DB) (*SQLite, error) {
	if err := migrateSQLite(ctx, db); err != nil {
		return nil, fmt.Errorf("ledger: prepare the tables: %w", err)
	}
	return &SQLite{db: db, writer: make(chan struct{}, 1)}, nil
}

// Write implements [Storage].
func (s *SQLite) Write(ctx context.Context, fn func(Conn) error) error {
	q, err := sqlitestore.Tx(ctx)
	if err == nil {
		return fn(sqlConn{q})
	}
	if !errors.Is(err, sqlitestore.ErrNoTx) {
		return err
	}
	select {
	case s.writer <- struct{}{}:
		defer func() { <-s.writer }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.own(ctx, nil, fn)
}

// Read implements [Storage].
func (s *SQLite) Read(ctx context.Context, fn func(Conn) error) error {
	return s.own(ctx, &sql.TxOptions{ReadOnly: true}, fn)
}

func (s *SQLite) own(ctx context.Context, opts *sql.TxOptions, fn func(Conn) error) error {
	tx, err := s.db.BeginTx(ctx, opts)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after Commit it does nothing
	if err := fn(sqlConn{tx}); err != nil {
		return err
	}
	return tx.Commit()
}

// Transient implements [Storage]: another process holds the file, or the
// transaction went down with that of others.
func (s *SQLite) Transient(err error) bool {
	return errors.Is(err, sqlite3.BUSY) || errors.Is(err, sqlite3.LOCKED) || errors.Is(err, sqlitestore.ErrRolledBack)
}

// querier is what *sql.Tx and sqlitestore.Querier have in common.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

type sqlConn struct{ q querier }

func (c sqlConn) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	res, err := c.q.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (c sqlConn) One(ctx context.Context, query string, args []any, dest ...any) (bool, error) {
	err := c.q.QueryRowContext(ctx, query, args...).Scan(dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

func (c sqlConn) Each(ctx context.Context, query string, args []any, fn func(scan func(dest ...any) error) error) error {
	rows, err := c.q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := fn(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
