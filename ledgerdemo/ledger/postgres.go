package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/dedup/pgstore"
)

// Postgres is a [Storage] in a PostgreSQL database, for any number of
// processes.
//
// Write joins the transaction of package pgstore that the context carries.
// Where it carries none, because outcomes are kept elsewhere or not at all, it
// makes one of its own, at READ COMMITTED.
type Postgres struct{ pool *pgxpool.Pool }

var _ Storage = (*Postgres)(nil)

// NewPostgres creates or checks the ledger's tables, in the first schema of
// the connections' search_path. The pool stays the caller's to close. Many
// processes may do so at once.
func NewPostgres(ctx context.Context, pool *pgxpool.Pool) (*Postgres, error) {
	if err := migratePostgres(ctx, pool); err != nil {
		return nil, fmt.Errorf("ledger: prepare the tables: %w", err)
	}
	return &Postgres{pool: pool}, nil
}

// Write implements [Storage].
func (p *Postgres) Write(ctx context.Context, fn func(Conn) error) error {
	tx, err := pgstore.Tx(ctx)
	if err == nil {
		return fn(pgConn{tx})
	}
	if !errors.Is(err, pgstore.ErrNoTx) {
		return err
	}
	return p.own(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, fn)
}

// Read implements [Storage].
func (p *Postgres) Read(ctx context.Context, fn func(Conn) error) error {
	return p.own(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, fn)
}

func (p *Postgres) own(ctx context.Context, opts pgx.TxOptions, fn func(Conn) error) error {
	tx, err := p.pool.BeginTx(ctx, opts)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) // after Commit it does nothing
	if err := fn(pgConn{tx}); err != nil {
		return err
	}
	return committed(tx.Commit(ctx))
}

// committed judges the error of a COMMIT. Where the server itself refused it
// and the session goes on, or where it was never sent, nothing has taken place.
// In any other case the answer is lost, and may have been a yes.
func committed(err error) error {
	if err == nil || sqlState(err) != "" || errors.Is(err, pgx.ErrTxCommitRollback) || pgconn.SafeToRetry(err) {
		return err
	}
	return fmt.Errorf("%w: %w", errCommitUnknown, err)
}

// sqlState returns the SQLSTATE of an error after which the session goes on,
// otherwise "".
func sqlState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.SeverityUnlocalized != "FATAL" && pg.SeverityUnlocalized != "PANIC" {
		return pg.Code
	}
	return ""
}

// SQLSTATEs, and classes of them, whose cause may pass. See PostgreSQL's
// appendix A.
var passing = []string{
	"08",    // the connection failed
	"40",    // rolled back: serialization failure, deadlock
	"53",    // too many connections, no memory, no disk
	"55P03", // a lock was not had in time
	"57P",   // the server, or an administrator, ended the session
	// A balance left 64 bits, against which the rules check before: it has
	// changed since. Tried again, it is refused by the rules.
	"22003",
}

// Transient implements [Storage]: the server rolled back for a reason that may
// pass, or the connection is lost.
func (p *Postgres) Transient(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		for _, code := range passing {
			if strings.HasPrefix(pg.Code, code) {
				return true
			}
		}
		return false
	}
	var network net.Error
	var connect *pgconn.ConnectError
	return errors.As(err, &network) || errors.As(err, &connect) || pgconn.SafeToRetry(err) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed)
}

type pgConn struct{ tx pgx.Tx }

func (c pgConn) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	tag, err := c.tx.Exec(ctx, query, args...)
	return tag.RowsAffected(), err
}

func (c pgConn) One(ctx context.Context, query string, args []any, dest ...any) (bool, error) {
	err := c.tx.QueryRow(ctx, query, args...).Scan(dest...)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

func (c pgConn) Each(ctx context.Context, query string, args []any, fn func(scan func(dest ...any) error) error) error {
	rows, err := c.tx.Query(ctx, query, args...)
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
