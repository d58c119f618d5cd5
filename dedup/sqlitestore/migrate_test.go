package sqlitestore

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3/driver"

	"github.com/retrysafe/retrysafe/dedup"
)

// openPlain opens a database as somebody would who has no store yet.
func openPlain(t *testing.T, name string) *sql.DB {
	t.Helper()
	db, err := driver.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// The schema is what the golden file says. It changes with its version only.
func TestSchemaIsPinned(t *testing.T) {
	s := open(t)
	var b strings.Builder
	var version int
	if err := s.DB().QueryRow(`SELECT version FROM retrysafe_schema`).Scan(&version); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&b, "-- version %d\n", version)
	rows, err := s.DB().Query(`SELECT name, coalesce(sql, 'automatic') FROM sqlite_schema
		WHERE tbl_name LIKE 'retrysafe%' ORDER BY name`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "-- %s\n%s\n", name, text)
	}
	golden, err := os.ReadFile("testdata/schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != string(golden) {
		t.Errorf("the schema differs from testdata/schema.sql. If that is intended it has a new version. It is:\n%s", got)
	}
}

// A database of version 1, as it was written then, is read now.
func TestReadsVersion1(t *testing.T) {
	path := databasePath(t)
	dump, err := os.ReadFile("testdata/version_1.sql")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openPlain(t, path).Exec(string(dump)); err != nil {
		t.Fatal(err)
	}
	s := openAt(t, path)
	if answer := wantState(t, s, "a", dedup.Completed); string(answer.Record) != "paid" {
		t.Errorf("record %q, want %q", answer.Record, "paid")
	}
}

func TestMigrateTwice(t *testing.T) {
	db := openPlain(t, databasePath(t))
	for range 2 {
		if err := Migrate(bounded(t), db); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMigrateAtOnce(t *testing.T) {
	path := databasePath(t)
	const callers = 8
	errs := make(chan error, callers)
	for range callers {
		db := openPlain(t, path)
		go func() { errs <- Migrate(bounded(t), db) }()
	}
	for range callers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	openAt(t, path)
}

func TestSchemaThatDoesNotFit(t *testing.T) {
	for _, tc := range []struct{ name, prepare, says string }{
		{"newer", `CREATE TABLE retrysafe_schema (version INTEGER); INSERT INTO retrysafe_schema VALUES (2)`, "newer program"},
		{"negative", `CREATE TABLE retrysafe_schema (version INTEGER); INSERT INTO retrysafe_schema VALUES (-1)`, "version -1"},
		{"another encoding", `PRAGMA encoding = 'UTF-16'; CREATE TABLE t (a)`, "UTF-16"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := databasePath(t)
			db := openPlain(t, path)
			if _, err := db.Exec(tc.prepare); err != nil {
				t.Fatal(err)
			}
			for what, err := range map[string]error{
				"Migrate": Migrate(bounded(t), db),
				"Open":    openError(path),
			} {
				if !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("%s: error %v, want ErrSchema that says %q", what, err, tc.says)
				}
			}
		})
	}
}

func openError(path string, opts ...Option) error {
	s, err := Open(context.Background(), path, opts...)
	if err == nil {
		err = s.Close()
	}
	return err
}

func TestNewNeedsAMigratedDatabase(t *testing.T) {
	db := openPlain(t, databasePath(t))
	_, err := New(bounded(t), db)
	if !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), "call Migrate") {
		t.Errorf("error %v, want ErrSchema that says what to do", err)
	}
	if err := Migrate(bounded(t), db); err != nil {
		t.Fatal(err)
	}
	s, err := New(bounded(t), db)
	if err != nil {
		t.Fatal(err)
	}
	createEffects(t, s)
	c := take(t, bounded(t), s, "a")
	mustWrite(t, c, "m")
	mustComplete(t, c, "paid")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantEffects(t, s, "m") // the database is still open
}

// What New does to its connection does not come back to the pool.
func TestNewLeavesThePoolClean(t *testing.T) {
	db := openPlain(t, databasePath(t))
	db.SetMaxOpenConns(2)
	if err := Migrate(bounded(t), db); err != nil {
		t.Fatal(err)
	}
	s, err := New(bounded(t), db)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // both at once
		conn, err := db.Conn(bounded(t))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		var timeout int
		if err := conn.QueryRowContext(bounded(t), `PRAGMA busy_timeout`).Scan(&timeout); err != nil || timeout != 60_000 {
			t.Errorf("busy_timeout %d, %v; want the pool's own", timeout, err)
		}
		if _, err := conn.ExecContext(bounded(t), `BEGIN; DELETE FROM retrysafe_outcome; COMMIT`); err != nil {
			t.Error(err)
		}
	}
}

func TestDatabasesThatNewRefuses(t *testing.T) {
	one := openPlain(t, databasePath(t))
	one.SetMaxOpenConns(1)
	foreign := sql.OpenDB(foreignConnector{})
	defer foreign.Close()
	for _, tc := range []struct {
		name string
		db   *sql.DB
		says string
	}{
		{"none", nil, "nil"},
		{"one connection", one, "one connection"},
		{"another driver", foreign, "foreignConn"},
	} {
		if _, err := New(bounded(t), tc.db); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: error %v, want one that says %q", tc.name, err, tc.says)
		}
	}
	if err := Migrate(bounded(t), nil); err == nil {
		t.Error("Migrate of nil went through")
	}
	memory := openPlain(t, ":memory:")
	if err := Migrate(bounded(t), memory); !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), "in-memory") {
		t.Errorf("in memory: error %v, want ErrSchema that says so", err)
	}
}

type foreignConnector struct{}

func (foreignConnector) Connect(context.Context) (sqldriver.Conn, error) { return foreignConn{}, nil }
func (foreignConnector) Driver() sqldriver.Driver                        { return nil }

type foreignConn struct{}

func (foreignConn) Prepare(string) (sqldriver.Stmt, error) { return nil, errors.ErrUnsupported }
func (foreignConn) Close() error                           { return nil }
func (foreignConn) Begin() (sqldriver.Tx, error)           { return nil, errors.ErrUnsupported }
