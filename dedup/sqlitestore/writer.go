package sqlitestore

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"

	"github.com/retrysafe/retrysafe/dedup"
)

// writer is the one connection that writes. It is taken out of the pool for
// as long as it works, and thrown away afterwards: its authorizer and its
// settings are the store's.
type writer struct {
	// mu is held during every call into SQLite, and guards what follows.
	mu       sync.Mutex
	conn     *sql.Conn
	driver   driver.Conn
	raw      *sqlite3.Conn
	own      map[string]*sqlite3.Stmt // the store's statements by their text
	handlers *statements              // the handlers' statements
	guest    bool                     // what is prepared now is a handler's
	defers   bool                     // a handler has put off foreign keys, and may again
}

// openWriter takes a connection out of db.
func openWriter(ctx context.Context, db *sql.DB) (*writer, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	w := &writer{conn: conn, own: make(map[string]*sqlite3.Stmt), handlers: newStatements()}
	if err := w.prepareConn(ctx); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *writer) prepareConn(ctx context.Context) error {
	// database/sql keeps its hands off a connection that is taken out of the
	// pool, so that w may hold what is below it until w.close.
	err := w.conn.Raw(func(c any) error {
		d, ok := c.(driver.Conn)
		if !ok {
			return fmt.Errorf("the database's driver is %T, it must be that of github.com/ncruces/go-sqlite3", c)
		}
		w.driver, w.raw = d, d.Raw()
		return nil
	})
	if err != nil {
		return err
	}
	if err := requireSchema(ctx, w.conn); err != nil {
		return err
	}
	// A claim waits for another process in its own way, not inside SQLite.
	if err := w.raw.BusyTimeout(0); err != nil {
		return err
	}
	if err := w.raw.Exec(`PRAGMA synchronous = FULL`); err != nil {
		return err
	}
	return w.raw.SetAuthorizer(w.authorize)
}

// close throws the connection away.
func (w *writer) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.raw != nil {
		// SQLite does not close a connection that has statements.
		for _, stmt := range w.own {
			_ = stmt.Close()
		}
		w.handlers.close()
		if !w.raw.GetAutocommit() {
			_ = w.raw.Exec(`ROLLBACK`)
		}
		_ = w.raw.SetAuthorizer(nil)
	}
	_ = w.conn.Raw(func(any) error { return sqldriver.ErrBadConn })
	_ = w.conn.Close()
}

// statement returns one of the store's own statements. It needs mu.
func (w *writer) statement(text string) (*sqlite3.Stmt, error) {
	if stmt := w.own[text]; stmt != nil {
		return stmt, nil
	}
	stmt, _, err := w.raw.PrepareFlags(text, sqlite3.PREPARE_PERSISTENT)
	if err != nil {
		return nil, err
	}
	w.own[text] = stmt
	return stmt, nil
}

// exec runs one of the store's own statements. It needs mu.
func (w *writer) exec(text string) error {
	stmt, err := w.statement(text)
	if err != nil {
		return err
	}
	return stmt.Exec()
}

// begin opens a transaction that may write. It fails with [sqlite3.BUSY]
// where another connection has one.
func (w *writer) begin() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.exec(`BEGIN IMMEDIATE`)
}

// commit makes the open transaction durable, or undoes it and says why.
func (w *writer) commit() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.exec(`COMMIT`)
	if err != nil {
		w.rollback()
	}
	return err
}

// undo ends the open transaction without a trace.
func (w *writer) undo() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rollback()
}

// rollback makes sure that no transaction is open. It needs mu. Where even
// that fails, the next BEGIN does too and the connection is replaced.
func (w *writer) rollback() {
	if w.intact() {
		_ = w.exec(`ROLLBACK`)
	}
}

// open says whether a transaction is open.
func (w *writer) open() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.intact()
}

// intact says whether a transaction is open. SQLite ends one by itself after
// some errors. It needs mu.
func (w *writer) intact() bool { return !w.raw.GetAutocommit() }

// savepoint, rollbackTo and releaseTo work on the store's savepoint at depth.
// They need mu.
func (w *writer) savepoint(depth int) error {
	return w.exec(`SAVEPOINT ` + savepointName(depth))
}

func (w *writer) rollbackTo(depth int) error {
	return w.exec(`ROLLBACK TO ` + savepointName(depth))
}

func (w *writer) releaseTo(depth int) error {
	return w.exec(`RELEASE ` + savepointName(depth))
}

// reserved is what the names of the store's tables and savepoints begin with.
const reserved = "retrysafe_"

func savepointName(depth int) string {
	return fmt.Sprintf(reserved+"%d", depth)
}

// restore takes back what a handler may set for the rest of the transaction.
// It needs mu.
func (w *writer) restore() error {
	if !w.defers {
		return nil
	}
	return w.exec(`PRAGMA defer_foreign_keys = OFF`)
}

// openForeignKeys says whether the transaction holds a reference that a
// deferred constraint will refuse at COMMIT. It needs mu.
func (w *writer) openForeignKeys() (bool, error) {
	n, _, err := w.raw.Status(sqlite3.DBSTATUS_DEFERRED_FKS, false)
	return n != 0, err
}

// entry is a row of retrysafe_outcome.
type entry struct {
	fingerprint dedup.Fingerprint
	fence       uint64
	expires     int64
	record      []byte
}

// answer is what a claim with this fingerprint is told of the entry.
func (e *entry) answer(asked dedup.Fingerprint) dedup.Answer {
	if e.fingerprint != asked {
		return dedup.Answer{State: dedup.Reused, Fingerprint: e.fingerprint}
	}
	return dedup.Answer{State: dedup.Completed, Record: e.record}
}

const selectEntry = `SELECT fingerprint_version, fingerprint, fence, expires_at, record
	FROM retrysafe_outcome WHERE scope = ? AND method = ? AND id = ?`

// lookup finds the entry of key, expired or not. It needs mu.
func (w *writer) lookup(key dedup.Key) (e entry, found bool, err error) {
	stmt, err := w.statement(selectEntry)
	if err != nil {
		return e, false, err
	}
	defer func() { err = errors.Join(err, stmt.Reset()) }()
	if err := bindKey(stmt, key); err != nil {
		return e, false, err
	}
	if !stmt.Step() {
		return e, false, stmt.Err()
	}
	e.fingerprint.Version = dedup.FingerprintVersion(stmt.ColumnInt64(0))
	copy(e.fingerprint.Sum[:], stmt.ColumnRawBlob(1))
	e.fence = uint64(stmt.ColumnInt64(2))
	e.expires = stmt.ColumnInt64(3)
	e.record = stmt.ColumnBlob(4, []byte{})
	return e, true, nil
}

func bindKey(stmt *sqlite3.Stmt, key dedup.Key) error {
	return errors.Join(
		stmt.BindText(1, key.Scope),
		stmt.BindText(2, key.Method),
		stmt.BindText(3, key.ID))
}

const insertEntry = `INSERT INTO retrysafe_outcome
	(scope, method, id, fingerprint_version, fingerprint, fence, expires_at, record, recorded_at)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
	ON CONFLICT (scope, method, id) DO UPDATE SET
		fingerprint_version = excluded.fingerprint_version, fingerprint = excluded.fingerprint,
		fence = excluded.fence, expires_at = excluded.expires_at,
		record = excluded.record, recorded_at = excluded.recorded_at`

// insert writes the entry of key. What it replaces has expired. It needs mu.
func (w *writer) insert(key dedup.Key, e *entry, now int64) error {
	stmt, err := w.statement(insertEntry)
	if err != nil {
		return err
	}
	if e.record == nil {
		e.record = []byte{} // nil would be NULL
	}
	err = errors.Join(
		bindKey(stmt, key),
		stmt.BindInt64(4, int64(e.fingerprint.Version)),
		stmt.BindBlob(5, e.fingerprint.Sum[:]),
		stmt.BindInt64(6, int64(e.fence)),
		stmt.BindInt64(7, e.expires),
		stmt.BindBlob(8, e.record),
		stmt.BindInt64(9, now))
	if err == nil {
		err = stmt.Exec()
	}
	// The statement would keep a copy of the record otherwise.
	return errors.Join(err, stmt.ClearBindings())
}

const deleteExpired = `DELETE FROM retrysafe_outcome WHERE seq IN
	(SELECT seq FROM retrysafe_outcome WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)`

// sweep deletes up to limit entries that have expired.
func (w *writer) sweep(now int64, limit int) (deleted int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	stmt, err := w.statement(deleteExpired)
	if err != nil {
		return 0, err
	}
	err = errors.Join(stmt.BindInt64(1, now), stmt.BindInt(2, limit))
	if err == nil {
		err = stmt.Exec()
	}
	if err != nil {
		return 0, err
	}
	return int(w.raw.Changes()), nil
}

// authorize is asked about every step of every statement as it is prepared.
func (w *writer) authorize(action sqlite3.AuthorizerActionCode, arg1, arg2, _, _ string) sqlite3.AuthorizerReturnCode {
	if !w.guest {
		return sqlite3.AUTH_OK
	}
	if !mayHandler(action, arg1, arg2) {
		return sqlite3.AUTH_DENY
	}
	if action == sqlite3.AUTH_PRAGMA && strings.EqualFold(arg1, "defer_foreign_keys") {
		w.defers = true
	}
	return sqlite3.AUTH_OK
}

// mayHandler keeps handlers from ending the transaction, from touching the
// store's tables, and from changing the connection for those who come next.
func mayHandler(action sqlite3.AuthorizerActionCode, arg1, arg2 string) bool {
	switch action {
	case sqlite3.AUTH_TRANSACTION, sqlite3.AUTH_ATTACH, sqlite3.AUTH_DETACH:
		return false
	case sqlite3.AUTH_SAVEPOINT:
		return !isReserved(arg2)
	case sqlite3.AUTH_PRAGMA:
		return arg2 == "" || readingPragmas[strings.ToLower(arg1)]
	case sqlite3.AUTH_INSERT, sqlite3.AUTH_UPDATE, sqlite3.AUTH_DELETE, sqlite3.AUTH_DROP_TABLE:
		return !isReserved(arg1)
	case sqlite3.AUTH_ALTER_TABLE, sqlite3.AUTH_CREATE_TRIGGER, sqlite3.AUTH_CREATE_TEMP_TRIGGER,
		sqlite3.AUTH_CREATE_INDEX, sqlite3.AUTH_DROP_INDEX:
		return !isReserved(arg2)
	}
	return true
}

// readingPragmas take an argument and set nothing that outlives the
// transaction.
var readingPragmas = map[string]bool{
	"table_info": true, "table_xinfo": true, "table_list": true,
	"index_info": true, "index_xinfo": true, "index_list": true,
	"foreign_key_list": true, "foreign_key_check": true,
	"integrity_check": true, "quick_check": true,
	"defer_foreign_keys": true,
}

func isReserved(name string) bool {
	return len(name) >= len(reserved) && strings.EqualFold(name[:len(reserved)], reserved)
}
