package sqlitestore

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"reflect"

	"github.com/ncruces/go-sqlite3"
)

// sessionTx is the context key by which a [tx] finds its session.
type sessionTx struct{}

// sessions makes the sessions of one store. Through them database/sql gives
// each claim a *sql.Tx of its own, with all its care for rows and statements
// left open, while all of them share the writer's one connection.
type sessions struct{ driver sqldriver.Driver }

func (s sessions) Connect(context.Context) (sqldriver.Conn, error) { return &session{}, nil }
func (s sessions) Driver() sqldriver.Driver                        { return s.driver }

// session stands in for a connection. It is bound to one tx at a time.
type session struct{ t *tx }

var (
	_ sqldriver.ConnBeginTx        = (*session)(nil)
	_ sqldriver.ConnPrepareContext = (*session)(nil)
	_ sqldriver.ExecerContext      = (*session)(nil)
	_ sqldriver.NamedValueChecker  = (*session)(nil)
	_ sqldriver.Tx                 = (*session)(nil)
)

var errSession = errors.New("sqlitestore: a session is used without its transaction")

func (s *session) Begin() (sqldriver.Tx, error) { return nil, errSession }

func (s *session) BeginTx(ctx context.Context, _ sqldriver.TxOptions) (sqldriver.Tx, error) {
	t, ok := ctx.Value(sessionTx{}).(*tx)
	if !ok {
		return nil, errSession
	}
	s.t = t
	return s, nil
}

// Commit and Rollback end the session's use. The transaction on the writer is
// ended by the claim.
func (s *session) Commit() error   { s.t = nil; return nil }
func (s *session) Rollback() error { s.t = nil; return nil }
func (s *session) Close() error    { return nil }

func (s *session) Prepare(query string) (sqldriver.Stmt, error) {
	return s.PrepareContext(context.Background(), query)
}

func (s *session) PrepareContext(ctx context.Context, query string) (sqldriver.Stmt, error) {
	t := s.t
	if t == nil {
		return nil, errSession
	}
	if isEmpty(query) {
		return nil, errEmpty
	}
	stctx, err := t.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer t.leave()
	stmt := t.w.handlers.take(query)
	if stmt == nil {
		if stmt, err = t.w.driver.PrepareContext(stctx, query); err != nil {
			return nil, explain(stctx, err)
		}
	}
	return &sessionStmt{t: t, text: query, stmt: stmt}, nil
}

// CheckNamedValue leaves the arguments to the statement.
func (s *session) CheckNamedValue(*sqldriver.NamedValue) error { return nil }

// ExecContext runs what has no arguments, and so may be several statements.
func (s *session) ExecContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	t := s.t
	if t == nil {
		return nil, errSession
	}
	if len(args) > 0 {
		return nil, sqldriver.ErrSkip
	}
	stctx, err := t.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer t.leave()
	res, err := t.w.driver.(sqldriver.ExecerContext).ExecContext(stctx, query, nil)
	return res, explain(stctx, err)
}

// enter begins a call into SQLite on behalf of the handler.
func (t *tx) enter(ctx context.Context) (*statementContext, error) {
	if err := t.reenter(); err != nil {
		return nil, err
	}
	return &statementContext{Context: ctx, t: t}, nil
}

// reenter is enter for a call that has its context already.
func (t *tx) reenter() error {
	t.w.mu.Lock()
	if err := t.usable(); err != nil {
		t.w.mu.Unlock()
		return err
	}
	t.w.guest = true
	return nil
}

// usable needs w.mu.
func (t *tx) usable() error {
	if t.nested {
		return ErrNestedOpen
	}
	if !t.w.intact() {
		return ErrRolledBack // it would run outside of any transaction
	}
	return nil
}

// leave ends what enter or reenter began.
func (t *tx) leave() {
	t.w.guest = false
	t.w.mu.Unlock()
}

// statementContext ends with the statement's own context, with the
// execution's, or when the store interrupts. The driver only polls Err, so
// that Done need not tell of the latter two.
type statementContext struct {
	context.Context
	t *tx
}

func (c *statementContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	if c.t.aborted.Load() {
		return context.Canceled
	}
	if c.t.execution != nil {
		return c.t.execution.Err()
	}
	return nil
}

// explain adds to an interruption why it came.
func explain(ctx context.Context, err error) error {
	if err == nil || !errors.Is(err, sqlite3.INTERRUPT) {
		return err
	}
	if cause := ctx.Err(); cause != nil {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// sessionStmt is a statement of a handler.
type sessionStmt struct {
	t      *tx
	text   string
	stmt   sqldriver.Stmt
	failed bool
}

var (
	_ sqldriver.StmtExecContext   = (*sessionStmt)(nil)
	_ sqldriver.StmtQueryContext  = (*sessionStmt)(nil)
	_ sqldriver.NamedValueChecker = (*sessionStmt)(nil)
)

func (s *sessionStmt) NumInput() int {
	s.t.w.mu.Lock()
	defer s.t.w.mu.Unlock()
	return s.stmt.NumInput()
}

func (s *sessionStmt) CheckNamedValue(v *sqldriver.NamedValue) error {
	return s.stmt.(sqldriver.NamedValueChecker).CheckNamedValue(v)
}

// Close gives the statement back. One that has failed is not used again.
func (s *sessionStmt) Close() error {
	s.t.w.mu.Lock()
	defer s.t.w.mu.Unlock()
	if s.failed {
		return s.stmt.Close()
	}
	return s.t.w.handlers.put(s.text, s.stmt)
}

func (s *sessionStmt) ExecContext(ctx context.Context, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	stctx, err := s.t.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer s.t.leave()
	res, err := s.stmt.(sqldriver.StmtExecContext).ExecContext(stctx, args)
	s.failed = s.failed || err != nil
	return res, explain(stctx, err)
}

func (s *sessionStmt) QueryContext(ctx context.Context, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	stctx, err := s.t.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer s.t.leave()
	rows, err := s.stmt.(sqldriver.StmtQueryContext).QueryContext(stctx, args)
	if err != nil {
		s.failed = true
		return nil, explain(stctx, err)
	}
	return &sessionRows{s: s, ctx: stctx, rows: rows.(rowsWithTypes)}, nil
}

// Exec and Query are what database/sql called before there were contexts.
func (s *sessionStmt) Exec([]sqldriver.Value) (sqldriver.Result, error) { return nil, errSession }
func (s *sessionStmt) Query([]sqldriver.Value) (sqldriver.Rows, error)  { return nil, errSession }

// rowsWithTypes is what the driver's rows can do.
type rowsWithTypes interface {
	sqldriver.RowsColumnTypeDatabaseTypeName
	sqldriver.RowsColumnTypeNullable
	sqldriver.RowsColumnTypeScanType
}

// sessionRows are rows of a handler.
type sessionRows struct {
	s    *sessionStmt
	ctx  context.Context
	rows rowsWithTypes
}

var _ rowsWithTypes = (*sessionRows)(nil)

func (r *sessionRows) Next(dest []sqldriver.Value) error {
	if err := r.s.t.reenter(); err != nil {
		return err
	}
	defer r.s.t.leave()
	return explain(r.ctx, r.rows.Next(dest))
}

func (r *sessionRows) Close() error {
	r.s.t.w.mu.Lock()
	defer r.s.t.w.mu.Unlock()
	err := r.rows.Close()
	r.s.failed = r.s.failed || err != nil
	return err
}

func (r *sessionRows) Columns() []string {
	r.s.t.w.mu.Lock()
	defer r.s.t.w.mu.Unlock()
	return r.rows.Columns()
}

func (r *sessionRows) ColumnTypeDatabaseTypeName(i int) string {
	r.s.t.w.mu.Lock()
	defer r.s.t.w.mu.Unlock()
	return r.rows.ColumnTypeDatabaseTypeName(i)
}

func (r *sessionRows) ColumnTypeNullable(i int) (nullable, ok bool) {
	r.s.t.w.mu.Lock()
	defer r.s.t.w.mu.Unlock()
	return r.rows.ColumnTypeNullable(i)
}

func (r *sessionRows) ColumnTypeScanType(i int) reflect.Type {
	r.s.t.w.mu.Lock()
	defer r.s.t.w.mu.Unlock()
	return r.rows.ColumnTypeScanType(i)
}
