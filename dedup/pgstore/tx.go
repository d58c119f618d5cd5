package pgstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

var errInUse = errors.New("pgstore: the transaction is in use; it is for one goroutine at a time")

var (
	// ErrNoTx: the context belongs to no execution under a claim of a [Store].
	ErrNoTx = errors.New("pgstore: the context carries no transaction")
	// ErrManaged: a handler tried to commit or roll back the transaction that
	// the store ends when the handler has returned. Part of it can be undone:
	// Begin gives a savepoint.
	ErrManaged = errors.New("pgstore: the transaction ends when the handler returns, by what it returns")
)

// Tx returns the transaction of the execution that ctx belongs to. It is for
// one goroutine at a time and until the handler returns; after that its
// methods answer [pgx.ErrTxClosed]. Commit and Rollback answer [ErrManaged],
// Begin gives a savepoint, which may be committed and rolled back.
//
// Conn, Prepare and LargeObjects give what pgx gives: the connection of a pool
// and what belongs to it. Not to be kept, and no place for SQL that begins or
// ends a transaction: an operation whose transaction was ended that way fails.
func Tx(ctx context.Context) (pgx.Tx, error) {
	t, ok := ctx.Value(txKey{}).(*transaction)
	if !ok {
		return nil, ErrNoTx
	}
	if t.over() {
		return nil, fmt.Errorf("pgstore: the execution is settled: %w", pgx.ErrTxClosed)
	}
	return t, nil
}

type txKey struct{}

// transaction is what the handler of one claim works in.
type transaction struct {
	guarded
	settled atomic.Bool
}

func newTransaction(s *session) *transaction {
	t := &transaction{}
	t.guarded = guarded{session: s, over: t.over, inner: s.tx}
	return t
}

func (t *transaction) over() bool { return t.settled.Load() || t.session.over.Load() }

// Commit answers ErrManaged.
func (t *transaction) Commit(context.Context) error { return ErrManaged }

// Rollback answers ErrManaged.
func (t *transaction) Rollback(context.Context) error { return ErrManaged }

// nested is a savepoint of the handler's own.
type nested struct{ guarded }

// Commit releases the savepoint.
func (n *nested) Commit(ctx context.Context) error {
	return n.do(func() error { return n.inner.Commit(ctx) })
}

// Rollback undoes what was done since the savepoint.
func (n *nested) Rollback(ctx context.Context) error {
	return n.do(func() error { return n.inner.Rollback(ctx) })
}

// guarded is a transaction of pgx's that answers pgx.ErrTxClosed once it is
// over, so that nobody writes into whatever the connection does next.
type guarded struct {
	session *session
	over    func() bool
	inner   pgx.Tx
}

// do calls f with the session's connection in hand. Like pgx, it does not wait
// for another who uses it, who may be further up the same stack.
func (g *guarded) do(f func() error) error {
	if !g.session.mu.TryLock() {
		if g.over() {
			return pgx.ErrTxClosed
		}
		return errInUse
	}
	defer g.session.mu.Unlock()
	if g.over() {
		return pgx.ErrTxClosed
	}
	return f()
}

// Begin makes a savepoint.
func (g *guarded) Begin(ctx context.Context) (tx pgx.Tx, err error) {
	err = g.do(func() error {
		inner, err := g.inner.Begin(ctx)
		if err == nil {
			tx = &nested{guarded{session: g.session, over: g.over, inner: inner}}
		}
		return err
	})
	return tx, err
}

// Exec implements [pgx.Tx].
func (g *guarded) Exec(ctx context.Context, sql string, args ...any) (tag pgconn.CommandTag, err error) {
	err = g.do(func() (err error) {
		tag, err = g.inner.Exec(ctx, sql, args...)
		return err
	})
	return tag, err
}

// Query implements [pgx.Tx].
func (g *guarded) Query(ctx context.Context, sql string, args ...any) (rows pgx.Rows, err error) {
	err = g.do(func() (err error) {
		rows, err = g.inner.Query(ctx, sql, args...)
		return err
	})
	if rows == nil {
		return noRows{err}, err
	}
	return rows, err
}

// QueryRow implements [pgx.Tx].
func (g *guarded) QueryRow(ctx context.Context, sql string, args ...any) (row pgx.Row) {
	err := g.do(func() error {
		row = g.inner.QueryRow(ctx, sql, args...)
		return nil
	})
	if err != nil {
		return noRows{err}
	}
	return row
}

// SendBatch implements [pgx.Tx].
func (g *guarded) SendBatch(ctx context.Context, b *pgx.Batch) (results pgx.BatchResults) {
	err := g.do(func() error {
		results = g.inner.SendBatch(ctx, b)
		return nil
	})
	if err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	return results
}

// CopyFrom implements [pgx.Tx].
func (g *guarded) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (n int64, err error) {
	err = g.do(func() (err error) {
		n, err = g.inner.CopyFrom(ctx, table, columns, rows)
		return err
	})
	return n, err
}

// Prepare implements [pgx.Tx].
func (g *guarded) Prepare(ctx context.Context, name, sql string) (sd *pgconn.StatementDescription, err error) {
	err = g.do(func() (err error) {
		sd, err = g.inner.Prepare(ctx, name, sql)
		return err
	})
	return sd, err
}

// LargeObjects implements [pgx.Tx].
func (g *guarded) LargeObjects() pgx.LargeObjects { return g.inner.LargeObjects() }

// Conn implements [pgx.Tx].
func (g *guarded) Conn() *pgx.Conn { return g.inner.Conn() }

// noRows are the rows, or the row, of a query that was not sent.
type noRows struct{ err error }

func (r noRows) Close()                                       {}
func (r noRows) Err() error                                   { return r.err }
func (r noRows) CommandTag() pgconn.CommandTag                { return pgconn.CommandTag{} }
func (r noRows) FieldDescriptions() []pgconn.FieldDescription { return nil }
func (r noRows) Next() bool                                   { return false }
func (r noRows) Scan(...any) error                            { return r.err }
func (r noRows) Values() ([]any, error)                       { return nil, r.err }
func (r noRows) RawValues() [][]byte                          { return nil }
func (r noRows) Conn() *pgx.Conn                              { return nil }
func (r noRows) TypeMap() *pgtype.Map                         { return nil }
