package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

var errBatchBegins = errors.New("pgstore: Batch.BeginTx cannot be used within a transaction")

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

// transaction is what the handler of one claim works in. Its methods answer
// pgx.ErrTxClosed once the claim is settled, so that nobody writes into what
// the connection does next.
type transaction struct {
	session *session
	settled atomic.Bool
}

func newTransaction(s *session) *transaction { return &transaction{session: s} }

func (t *transaction) over() bool { return t.settled.Load() || t.session.over.Load() }

// do calls f with the session's connection in hand. Like pgx, it does not wait
// for another who uses it, who may be further up the same stack.
func (t *transaction) do(f func(*pgx.Conn) error) error {
	if !t.session.mu.TryLock() {
		if t.over() {
			return pgx.ErrTxClosed
		}
		return errInUse
	}
	defer t.session.mu.Unlock()
	if t.over() {
		return pgx.ErrTxClosed
	}
	return f(t.session.pgx())
}

// Commit answers ErrManaged.
func (t *transaction) Commit(context.Context) error { return ErrManaged }

// Rollback answers ErrManaged.
func (t *transaction) Rollback(context.Context) error { return ErrManaged }

// Begin makes a savepoint.
func (t *transaction) Begin(ctx context.Context) (tx pgx.Tx, err error) {
	err = t.do(func(conn *pgx.Conn) error {
		t.session.savepoints++
		n := &nested{transaction: t, name: savepoint + "_handler_" + strconv.FormatInt(t.session.savepoints, 10)}
		tx = n
		_, err := conn.Exec(ctx, "SAVEPOINT "+n.name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return tx, nil
}

// Exec implements [pgx.Tx].
func (t *transaction) Exec(ctx context.Context, sql string, args ...any) (tag pgconn.CommandTag, err error) {
	err = t.do(func(conn *pgx.Conn) (err error) {
		tag, err = conn.Exec(ctx, sql, args...)
		return err
	})
	return tag, err
}

// Query implements [pgx.Tx].
func (t *transaction) Query(ctx context.Context, sql string, args ...any) (rows pgx.Rows, err error) {
	err = t.do(func(conn *pgx.Conn) (err error) {
		rows, err = conn.Query(ctx, sql, args...)
		return err
	})
	if rows == nil {
		return noRows{err}, err
	}
	return rows, err
}

// QueryRow implements [pgx.Tx].
func (t *transaction) QueryRow(ctx context.Context, sql string, args ...any) (row pgx.Row) {
	err := t.do(func(conn *pgx.Conn) error {
		row = conn.QueryRow(ctx, sql, args...)
		return nil
	})
	if err != nil {
		return noRows{err}
	}
	return row
}

// SendBatch implements [pgx.Tx].
func (t *transaction) SendBatch(ctx context.Context, b *pgx.Batch) (results pgx.BatchResults) {
	if failed := pgx.FailedBatchResults(b, errBatchBegins); failed.Tx() != nil {
		return failed
	}
	err := t.do(func(conn *pgx.Conn) error {
		results = conn.SendBatch(ctx, b)
		return nil
	})
	if err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	return results
}

// CopyFrom implements [pgx.Tx].
func (t *transaction) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (n int64, err error) {
	err = t.do(func(conn *pgx.Conn) (err error) {
		n, err = conn.CopyFrom(ctx, table, columns, rows)
		return err
	})
	return n, err
}

// Prepare implements [pgx.Tx].
func (t *transaction) Prepare(ctx context.Context, name, sql string) (sd *pgconn.StatementDescription, err error) {
	err = t.do(func(conn *pgx.Conn) (err error) {
		sd, err = conn.Prepare(ctx, name, sql)
		return err
	})
	return sd, err
}

// LargeObjects implements [pgx.Tx], with one round trip.
func (t *transaction) LargeObjects() pgx.LargeObjects {
	var tx pgx.Tx
	err := t.do(func(conn *pgx.Conn) (err error) {
		// pgx makes large objects of its own transactions only. An empty
		// statement is a transaction's beginning where one is open already.
		tx, err = conn.BeginTx(context.Background(), pgx.TxOptions{BeginQuery: ";"})
		return err
	})
	if err != nil {
		var b pgx.Batch
		b.BeginTx(pgx.TxOptions{})
		tx = pgx.FailedBatchResults(&b, err).Tx() // a closed one
	}
	return tx.LargeObjects()
}

// Conn implements [pgx.Tx].
func (t *transaction) Conn() *pgx.Conn { return t.session.pgx() }

// nested is a savepoint of the handler's own.
type nested struct {
	*transaction
	name   string
	closed atomic.Bool
}

// Commit releases the savepoint.
func (n *nested) Commit(ctx context.Context) error { return n.close(ctx, "RELEASE SAVEPOINT ") }

// Rollback undoes what was done since the savepoint.
func (n *nested) Rollback(ctx context.Context) error { return n.close(ctx, "ROLLBACK TO SAVEPOINT ") }

func (n *nested) close(ctx context.Context, how string) error {
	if n.closed.Swap(true) {
		return pgx.ErrTxClosed
	}
	return n.do(func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, how+n.name)
		return err
	})
}

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
