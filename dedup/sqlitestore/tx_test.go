package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
)

const endless = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n`

func TestNoTransactionWithoutAClaim(t *testing.T) {
	_, err := Tx(context.Background())
	wantError(t, "Tx", err, ErrNoTx)
}

// What would end the transaction, or change what the next handler finds, is
// refused, and costs nobody anything.
func TestRefusedStatements(t *testing.T) {
	s := open(t)
	mustComplete(t, take(t, bounded(t), s, "before"), "paid")
	refused := []string{
		`BEGIN`, `BEGIN IMMEDIATE`, `COMMIT`, `END TRANSACTION`, `ROLLBACK`,
		`SAVEPOINT retrysafe_1`, `RELEASE retrysafe_1`, `ROLLBACK TO RETRYSAFE_1`, `RELEASE "retrysafe_1"`,
		`SELECT 1; COMMIT`, `ROLLBACK; SELECT 1`,
		`ATTACH ':memory:' AS other`, `DETACH main`, `VACUUM`,
		`PRAGMA synchronous = OFF`, `PRAGMA main.synchronous = 0`, `PRAGMA journal_mode = DELETE`,
		`PRAGMA foreign_keys = OFF`, `PRAGMA writable_schema = ON`, `PRAGMA busy_timeout(0)`,
		`INSERT INTO retrysafe_outcome (scope) VALUES ('x')`, `DELETE FROM RetrySafe_Outcome`,
		`UPDATE retrysafe_outcome SET record = x''`, `DROP TABLE retrysafe_outcome`,
		`ALTER TABLE retrysafe_outcome RENAME TO other`, `UPDATE retrysafe_schema SET version = 9`,
		`DROP INDEX retrysafe_outcome_expiry`,
		`CREATE TRIGGER t AFTER INSERT ON retrysafe_outcome BEGIN SELECT 1; END`,
	}
	for _, statement := range refused {
		t.Run(statement, func(t *testing.T) {
			c := take(t, bounded(t), s, statement)
			ctx, tx := handler(t, c)
			mustWrite(t, c, statement)
			if _, err := tx.ExecContext(ctx, statement); err == nil {
				t.Error("it went through")
			}
			if stmt, err := tx.PrepareContext(ctx, statement); err == nil {
				if _, err := stmt.ExecContext(ctx); err == nil {
					t.Error("it went through when prepared")
				}
			}
			if _, err := tx.ExecContext(ctx, `DELETE FROM effect WHERE marker = ?`, statement); err != nil {
				t.Errorf("the transaction is not usable afterwards: %v", err)
			}
			mustComplete(t, c, "paid")
		})
	}
	wantEffects(t, s)
	wantState(t, s, "before", dedup.Completed)
}

func TestAllowedStatements(t *testing.T) {
	s := open(t)
	c := take(t, bounded(t), s, "a")
	ctx, tx := handler(t, c)
	for _, statement := range []string{
		`INSERT INTO effect VALUES ('kept')`,
		`SAVEPOINT mine`,
		`INSERT INTO effect VALUES ('undone')`,
		`ROLLBACK TO mine; RELEASE mine`,
		`SAVEPOINT left_open`,
		`CREATE TABLE other (id INTEGER PRIMARY KEY)`,
		`CREATE INDEX other_id ON other (id)`,
		`PRAGMA table_info(effect)`,
		`PRAGMA user_version`,
		`SELECT count(*) FROM retrysafe_outcome`,
		`INSERT INTO effect VALUES ('second'); INSERT INTO effect VALUES ('third')`,
	} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			t.Errorf("%s: %v", statement, err)
		}
	}
	mustComplete(t, c, "paid")
	wantEffects(t, s, "kept", "second", "third")
}

// The transaction is dead once the execution is settled, with all that was
// made of it.
func TestTransactionEndsWithTheClaim(t *testing.T) {
	for name, settle := range map[string]func(dedup.Claim) error{
		"completed": func(c dedup.Claim) error { return c.Complete(bounded(t), recorded("paid")) },
		"released":  func(c dedup.Claim) error { return c.Release(bounded(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			c := take(t, bounded(t), s, "a")
			ctx, tx := handler(t, c)
			insert, err := tx.PrepareContext(ctx, `INSERT INTO effect VALUES (?)`)
			if err != nil {
				t.Fatal(err)
			}
			rows, err := tx.QueryContext(ctx, `SELECT 1 UNION SELECT 2`)
			if err != nil || !rows.Next() {
				t.Fatal("no rows", err)
			}
			if err := settle(c); err != nil {
				t.Fatal(err)
			}

			next := take(t, bounded(t), s, "b") // whose transaction is open now
			if rows.Next() {
				t.Error("rows that were left open go on")
			}
			if rows.Err() == nil {
				t.Error("rows that were cut off say that they ended")
			}
			if _, err := insert.ExecContext(ctx, "stray"); err == nil {
				t.Error("a prepared statement still works")
			}
			_, err = tx.ExecContext(ctx, `INSERT INTO effect VALUES ('stray')`)
			wantError(t, "ExecContext", err, sql.ErrTxDone)
			_, err = tx.PrepareContext(ctx, `SELECT 1`)
			wantError(t, "PrepareContext", err, sql.ErrTxDone)
			_, err = tx.QueryContext(ctx, `SELECT 1`)
			wantError(t, "QueryContext", err, sql.ErrTxDone)
			var one int
			wantError(t, "QueryRowContext", tx.QueryRowContext(ctx, `SELECT 1`).Scan(&one), sql.ErrTxDone)
			_, err = Tx(ctx)
			wantError(t, "Tx", err, sql.ErrTxDone)
			mustComplete(t, next, "paid")
			wantEffects(t, s)
		})
	}
}

// The execution's limit interrupts what the handler runs, whatever context
// the handler gives it.
func TestExecutionLimitInterrupts(t *testing.T) {
	type call func(ctx context.Context, tx Querier) error
	scan := func(row *sql.Row) error { var n int; return row.Scan(&n) }
	for name, query := range map[string]call{
		"a query with the handler's context": func(ctx context.Context, tx Querier) error {
			return scan(tx.QueryRowContext(ctx, endless))
		},
		"a query with another context": func(_ context.Context, tx Querier) error {
			return scan(tx.QueryRowContext(context.Background(), endless))
		},
		"a prepared statement": func(_ context.Context, tx Querier) error {
			stmt, err := tx.PrepareContext(context.Background(), endless)
			if err != nil {
				return err
			}
			return scan(stmt.QueryRowContext(context.Background()))
		},
		"a script": func(_ context.Context, tx Querier) error {
			_, err := tx.ExecContext(context.Background(), `SELECT 1; `+endless)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			c := take(t, bounded(t), s, "a")
			limited, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			defer cancel()
			ctx := c.Context(limited)
			tx, err := Tx(ctx)
			if err != nil {
				t.Fatal(err)
			}
			wantError(t, "the statement", query(ctx, tx), context.DeadlineExceeded)
			mustComplete(t, c, "too slow")
			wantState(t, s, "a", dedup.Completed)
		})
	}
}

// SQLite undoes everything where it interrupts a write. Then nothing is
// recorded, and nothing is written outside of a transaction.
func TestInterruptedWrite(t *testing.T) {
	s := open(t)
	c := take(t, bounded(t), s, "a")
	mustWrite(t, c, "m")
	limited, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	tx, err := Tx(c.Context(limited))
	if err != nil {
		t.Fatal(err)
	}
	_, err = tx.ExecContext(context.Background(), `INSERT INTO effect
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT 'x' || i FROM n`)
	wantError(t, "the endless insert", err, context.DeadlineExceeded)
	_, err = tx.ExecContext(context.Background(), `SAVEPOINT outside`)
	wantError(t, "the next statement", err, ErrRolledBack)
	wantError(t, "Complete", c.Complete(bounded(t), recorded("paid")), ErrRolledBack)
	wantEffects(t, s)
	wantState(t, s, "a", dedup.Claimed)
}

// A handler may roll the transaction back through SQLite's conflict clauses.
func TestRollbackBehindTheStore(t *testing.T) {
	for name, statement := range map[string]string{
		"a conflict clause": `INSERT OR ROLLBACK INTO effect VALUES ('m')`,
		"a trigger":         `INSERT INTO effect VALUES ('raise')`,
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			if _, err := s.DB().Exec(`CREATE TRIGGER raise BEFORE INSERT ON effect WHEN new.marker = 'raise'
				BEGIN SELECT RAISE(ROLLBACK, 'never'); END`); err != nil {
				t.Fatal(err)
			}
			c := take(t, bounded(t), s, "a")
			mustWrite(t, c, "m")
			ctx, tx := handler(t, c)
			if _, err := tx.ExecContext(ctx, statement); err == nil {
				t.Fatal("it went through")
			}
			wantError(t, "the next statement", write(ctx, "stray"), ErrRolledBack)
			_, err := s.Claim(ctx, request("nested"))
			wantError(t, "a nested claim", err, ErrRolledBack)
			wantError(t, "Complete", c.Complete(bounded(t), recorded("paid")), ErrRolledBack)
			wantEffects(t, s)
			wantState(t, s, "a", dedup.Claimed)
		})
	}
}

// A row that breaks a deferred constraint fails its own execution, not the
// commit that others wait for, and deferring ends with the execution.
func TestDeferredForeignKeys(t *testing.T) {
	s := open(t)
	if _, err := s.DB().Exec(`CREATE TABLE parent (id INTEGER PRIMARY KEY);
		CREATE TABLE child (parent INTEGER REFERENCES parent)`); err != nil {
		t.Fatal(err)
	}
	gate := take(t, bounded(t), s, "gate")
	results := inLine(t, s,
		func(ctx context.Context) error {
			return run(ctx, `PRAGMA defer_foreign_keys = ON; INSERT INTO child VALUES (1)`)
		},
		func(ctx context.Context) error {
			if err := run(ctx, `INSERT INTO child VALUES (2)`); err == nil {
				return errors.New("the constraint is still deferred")
			}
			return write(ctx, "kept")
		})
	mustComplete(t, gate, "open")
	if err := <-results[0]; err == nil || !strings.Contains(err.Error(), "foreign key") {
		t.Errorf("the broken one: error %v, want one about its foreign key", err)
	}
	if err := <-results[1]; err != nil {
		t.Errorf("the other: %v", err)
	}
	wantEffects(t, s, "kept")
	wantState(t, s, "line 0", dedup.Claimed)
	wantState(t, s, "line 1", dedup.Completed)
}

func run(ctx context.Context, statement string) error {
	tx, err := Tx(ctx)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, statement)
	return err
}

// inLine starts executions of "line 0", "line 1" and so on that stand in line
// for the writer in that order, and returns what becomes of them.
func inLine(t *testing.T, s *Store, handlers ...func(context.Context) error) []chan error {
	t.Helper()
	return inLineFrom(t, s, 0, handlers...)
}

// inLineFrom is inLine behind others who are waiting.
func inLineFrom(t *testing.T, s *Store, waiting int, handlers ...func(context.Context) error) []chan error {
	t.Helper()
	results := make([]chan error, len(handlers))
	for i, handle := range handlers {
		results[i] = make(chan error, 1)
		go func() { results[i] <- execute(t, s, request("line "+string(rune('0'+i))), handle) }()
		eventually(t, "a place in the line", func() bool { return s.Stats().Waiting == waiting+i+1 })
	}
	return results
}

// execute claims, handles and completes.
func execute(t *testing.T, s *Store, req dedup.ClaimRequest, handle func(context.Context) error) error {
	answer, err := s.Claim(bounded(t), req)
	if err != nil {
		return err
	}
	if answer.State != dedup.Claimed {
		return errors.New("answered " + answer.State.String())
	}
	if err := handle(answer.Claim.Context(bounded(t))); err != nil {
		return errors.Join(err, answer.Claim.Release(bounded(t)))
	}
	return answer.Claim.Complete(bounded(t), recorded("paid"))
}

// Rows tell of their columns as the driver's own do.
func TestColumnTypes(t *testing.T) {
	s := open(t)
	c := take(t, bounded(t), s, "a")
	ctx, tx := handler(t, c)
	rows, err := tx.QueryContext(ctx, `SELECT fence, record, method AS name FROM retrysafe_outcome`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	types, err := rows.ColumnTypes()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"fence INTEGER int64", "record BLOB []uint8", "name TEXT string"} {
		nullable, known := types[i].Nullable()
		if got := fmt.Sprint(types[i].Name(), " ", types[i].DatabaseTypeName(), " ", types[i].ScanType()); got != want || nullable || !known {
			t.Errorf("column %d: %s, nullable %v; want %s", i, got, nullable, want)
		}
	}
}

// What holds no statement is an error or nothing, not a panic.
func TestEmptyStatements(t *testing.T) {
	s := open(t)
	c := take(t, bounded(t), s, "a")
	ctx, tx := handler(t, c)
	for _, statement := range []string{"", " ", ";", "-- nothing", "/* nothing */"} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			t.Errorf("ExecContext(%q): %v", statement, err)
		}
		var n int
		if err := tx.QueryRowContext(ctx, statement).Scan(&n); err == nil {
			t.Errorf("QueryRowContext(%q): no error", statement)
		}
		if _, err := tx.ExecContext(ctx, statement, 1); err == nil {
			t.Errorf("ExecContext(%q, 1): no error", statement)
		}
	}
	mustComplete(t, c, "paid")
}

// The compiled statements of handlers are kept, and bounded.
func TestStatementsAreKept(t *testing.T) {
	s := open(t)
	c := take(t, bounded(t), s, "a")
	ctx, tx := handler(t, c)
	for i := range 2 * maxStatements {
		var n int
		if err := tx.QueryRowContext(ctx, `SELECT `+strings.Repeat("1+", i)+`1`).Scan(&n); err != nil || n != i+1 {
			t.Fatalf("statement %d: %d, %v", i, n, err)
		}
	}
	if n := len(s.writer.handlers.byText); n != maxStatements || s.writer.handlers.recent.Len() != n {
		t.Errorf("%d statements are kept, want %d", n, maxStatements)
	}
	// Two of one text at once, and a schema that changes under them.
	outer, err := tx.QueryContext(ctx, `SELECT marker FROM effect UNION SELECT 'x' UNION SELECT 'y'`)
	if err != nil {
		t.Fatal(err)
	}
	defer outer.Close()
	count := 0
	for outer.Next() {
		var marker string
		if err := tx.QueryRowContext(ctx, `SELECT marker FROM effect UNION SELECT 'x' UNION SELECT 'y'`).Scan(&marker); err != nil {
			t.Fatal(err)
		}
		count++
	}
	if err := errors.Join(outer.Err(), run(ctx, `ALTER TABLE effect ADD COLUMN note TEXT`)); err != nil || count != 2 {
		t.Fatal(count, err)
	}
	if err := write(ctx, "m"); err != nil {
		t.Fatal(err)
	}
	mustComplete(t, c, "paid")
	wantEffects(t, s, "m")
}
