package pgstore_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/pgstore"
)

func undone(record string) dedup.Completion {
	c := recorded(record)
	c.Undo = true
	return c
}

// oneConnection makes a pool in which a connection that was not given back, or
// given back in a transaction, is noticed by the next claim.
func oneConnection(c *pgxpool.Config) { c.MaxConns = 1 }

func TestABusinessErrorUndoesTheWritesAndIsRecorded(t *testing.T) {
	db := newDatabase(t)
	s := db.store(db.pool(oneConnection))
	key := newKey()
	claim := db.claim(t.Context(), s, request(key))
	db.must(db.write(claim.Context(t.Context()), key.ID))
	db.must(claim.Complete(t.Context(), undone("no funds")))
	if db.written(key.ID) {
		t.Error("the handler's write stands")
	}
	if answer := db.wantState(s, key, dedup.Completed); string(answer.Record) != "no funds" {
		t.Errorf("record %q", answer.Record)
	}
}

func TestAFailedTransaction(t *testing.T) {
	db := newDatabase(t)
	s := db.store(db.pool(oneConnection))
	fail := func(claim dedup.Claim, marker string) {
		tx, err := pgstore.Tx(claim.Context(t.Context()))
		db.must(err)
		db.must(db.write(claim.Context(t.Context()), marker))
		if _, err := tx.Exec(t.Context(), "SELECT 1/0"); err == nil {
			t.Fatal("1/0 went through")
		}
	}
	key := newKey()
	claim := db.claim(t.Context(), s, request(key))
	fail(claim, key.ID)
	first := claim.Complete(t.Context(), recorded("paid"))
	if first == nil {
		t.Fatal("it was recorded, with half of its effects")
	}
	if again := claim.Complete(t.Context(), recorded("paid")); again != first {
		t.Errorf("a repeat answers %v after %v", again, first)
	}
	if err := claim.Release(t.Context()); !errors.Is(err, dedup.ErrLeaseLost) {
		t.Errorf("Release after a Complete that failed: %v", err)
	}

	claim = db.claim(t.Context(), s, request(key))
	fail(claim, key.ID)
	db.must(claim.Complete(t.Context(), undone("no funds")))
	if db.written(key.ID) {
		t.Error("the handler's write stands")
	}
	db.wantState(s, key, dedup.Completed)
}

func TestWhatCannotBeRecordedIsUndone(t *testing.T) {
	db := newDatabase(t)
	s := db.store(db.pool(oneConnection))
	for name, tc := range map[string]struct {
		completion dedup.Completion
		want       error
	}{
		"retention": {dedup.Completion{Retention: time.Microsecond}, nil},
		"size":      {dedup.Completion{Retention: time.Hour, Record: make([]byte, 256<<20+1)}, dedup.ErrTooLarge},
	} {
		key := newKey()
		claim := db.claim(t.Context(), s, request(key))
		db.must(db.write(claim.Context(t.Context()), key.ID))
		err := claim.Complete(t.Context(), tc.completion)
		if err == nil || tc.want != nil && !errors.Is(err, tc.want) {
			t.Errorf("%s: error %v", name, err)
		}
		if db.written(key.ID) {
			t.Errorf("%s: the handler's write stands", name)
		}
		db.wantState(s, key, dedup.Claimed)
	}
}

func TestAContextThatHasEndedCompletesNothing(t *testing.T) {
	db := newDatabase(t)
	s := db.store(db.pool(oneConnection))
	key := newKey()
	claim := db.claim(t.Context(), s, request(key))
	db.must(db.write(claim.Context(t.Context()), key.ID))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := claim.Complete(ctx, recorded("paid")); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if db.written(key.ID) {
		t.Error("the handler's write stands")
	}
	claim = db.claim(t.Context(), s, request(key))
	db.must(claim.Release(ctx)) // a release needs no time of its caller's
	db.wantState(s, key, dedup.Claimed)
}

// TestTheHandlersTransactionIsTheStores: a handler can neither end it, nor use
// it after its end.
func TestTheHandlersTransactionIsTheStores(t *testing.T) {
	db := newDatabase(t)
	s := db.store(db.pool(oneConnection))
	if _, err := pgstore.Tx(t.Context()); !errors.Is(err, pgstore.ErrNoTx) {
		t.Errorf("error %v", err)
	}
	key := newKey()
	claim := db.claim(t.Context(), s, request(key))
	ctx := claim.Context(t.Context())
	tx, err := pgstore.Tx(ctx)
	db.must(err)
	for _, err := range []error{tx.Commit(ctx), tx.Rollback(ctx)} {
		if !errors.Is(err, pgstore.ErrManaged) {
			t.Errorf("error %v", err)
		}
	}
	db.must(db.write(ctx, key.ID))
	db.must(claim.Complete(t.Context(), recorded("paid")))
	if !db.written(key.ID) {
		t.Error("the handler's write is gone")
	}

	var scanned int
	rows, queryErr := tx.Query(ctx, "SELECT 1")
	rows.Close()
	_, execErr := tx.Exec(ctx, "SELECT 1")
	_, beginErr := tx.Begin(ctx)
	_, prepareErr := tx.Prepare(ctx, "late", "SELECT 1")
	_, copyErr := tx.CopyFrom(ctx, pgx.Identifier{db.schema, "effects"}, []string{"marker"}, pgx.CopyFromRows([][]any{{unique()}}))
	_, txErr := pgstore.Tx(ctx)
	large := tx.LargeObjects()
	_, largeErr := large.Create(ctx, 0)
	var batch pgx.Batch
	batch.Queue("SELECT 1")
	for name, err := range map[string]error{
		"Query": queryErr, "Rows": rows.Err(), "Exec": execErr, "Begin": beginErr, "Prepare": prepareErr, "CopyFrom": copyErr,
		"QueryRow":  tx.QueryRow(ctx, "SELECT 1").Scan(&scanned),
		"SendBatch": tx.SendBatch(ctx, &batch).Close(),
		"Tx":        txErr, "LargeObjects": largeErr,
	} {
		if !errors.Is(err, pgx.ErrTxClosed) {
			t.Errorf("%s after the end: error %v", name, err)
		}
	}
}

func TestEverythingOfATransaction(t *testing.T) {
	db := newDatabase(t)
	s := db.store(db.pool(oneConnection))
	key := newKey()
	claim := db.claim(t.Context(), s, request(key))
	ctx := claim.Context(t.Context())
	tx, err := pgstore.Tx(ctx)
	db.must(err)

	kept, lost := unique(), unique()
	insert := "INSERT INTO " + db.name("effects") + " VALUES ($1)"
	outer, err := tx.Begin(ctx)
	db.must(err)
	_, err = outer.Exec(ctx, insert, kept)
	db.must(err)
	inner, err := outer.Begin(ctx)
	db.must(err)
	_, err = inner.Exec(ctx, insert, lost)
	db.must(err)
	db.must(inner.Rollback(ctx))
	if err := inner.Commit(ctx); !errors.Is(err, pgx.ErrTxClosed) {
		t.Errorf("Commit after Rollback: %v", err)
	}
	db.must(outer.Commit(ctx))

	copied := unique()
	_, err = tx.CopyFrom(ctx, pgx.Identifier{db.schema, "effects"}, []string{"marker"}, pgx.CopyFromRows([][]any{{copied}}))
	db.must(err)
	_, err = tx.Prepare(ctx, "count", "SELECT count(*) FROM "+db.name("effects"))
	db.must(err)
	var n int
	db.must(tx.QueryRow(ctx, "count").Scan(&n))
	if n != 2 {
		t.Errorf("%d markers, want 2", n)
	}
	large := tx.LargeObjects()
	oid, err := large.Create(ctx, 0)
	db.must(err)
	object, err := large.Open(ctx, oid, pgx.LargeObjectModeWrite|pgx.LargeObjectModeRead)
	db.must(err)
	_, err = object.Write([]byte("large"))
	db.must(err)
	_, err = object.Seek(0, io.SeekStart)
	db.must(err)
	if b, err := io.ReadAll(object); err != nil || string(b) != "large" {
		t.Errorf("%q, %v", b, err)
	}
	db.must(object.Close())
	var begins pgx.Batch
	begins.BeginTx(pgx.TxOptions{})
	if err := tx.SendBatch(ctx, &begins).Close(); err == nil {
		t.Error("a batch began a transaction in the transaction")
	}
	db.must(pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return tx.Conn().Ping(ctx) }))
	db.must(claim.Complete(t.Context(), recorded("paid")))
	if !db.written(kept) || db.written(lost) || !db.written(copied) {
		t.Error("the savepoints did not do what was asked")
	}
}

// TestATransactionEndedByTheHandler is what Conn and SQL make possible. What was
// committed cannot be undone, but nobody is told of success, and the
// connection goes on well.
func TestATransactionEndedByTheHandler(t *testing.T) {
	for _, how := range []string{"COMMIT", "ROLLBACK", "COMMIT; BEGIN"} {
		for _, completion := range []dedup.Completion{recorded("paid"), undone("no funds")} {
			db := newDatabase(t)
			s := db.store(db.pool(oneConnection))
			key := newKey()
			claim := db.claim(t.Context(), s, request(key))
			tx, err := pgstore.Tx(claim.Context(t.Context()))
			db.must(err)
			_, err = tx.Exec(t.Context(), how)
			db.must(err)
			if err := claim.Complete(t.Context(), completion); err == nil {
				t.Errorf("%s: it was recorded", how)
			}
			db.wantState(s, key, dedup.Claimed)
		}
	}
}

func TestRowsThatAreLeftOpen(t *testing.T) {
	db := newDatabase(t)
	s := db.store(db.pool(oneConnection))
	key := newKey()
	claim := db.claim(t.Context(), s, request(key))
	tx, err := pgstore.Tx(claim.Context(t.Context()))
	db.must(err)
	_, err = tx.Query(t.Context(), "SELECT generate_series(1, 100000)")
	db.must(err)
	if _, err := tx.Exec(t.Context(), "SELECT 1"); err == nil {
		t.Error("the connection did two things at once")
	}
	if err := claim.Complete(t.Context(), recorded("paid")); err == nil || !strings.Contains(err.Error(), "rows") {
		t.Errorf("error %v", err)
	}
	db.wantState(s, key, dedup.Claimed)
}

// TestAGoroutineThatIsLeftBehind cannot hold up the settlement, nor write
// after it.
func TestAGoroutineThatIsLeftBehind(t *testing.T) {
	db := newDatabase(t)
	s := db.store(db.pool(oneConnection))
	for name, settle := range map[string]func(dedup.Claim) error{
		"Complete": func(c dedup.Claim) error { return c.Complete(t.Context(), recorded("paid")) },
		"Release":  func(c dedup.Claim) error { return c.Release(t.Context()) },
	} {
		key := newKey()
		claim := db.claim(t.Context(), s, request(key))
		ctx := claim.Context(t.Context())
		tx, err := pgstore.Tx(ctx)
		db.must(err)
		left := make(chan error)
		go func() {
			_, err := tx.Exec(ctx, "SELECT pg_sleep(600)")
			left <- err
		}()
		db.eventually(func() bool {
			return db.count("SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(600)' AND state = 'active' AND datname = current_database()") == 1
		})
		if _, err := tx.Exec(ctx, "SELECT 1"); err == nil || errors.Is(err, pgx.ErrTxClosed) {
			t.Errorf("%s: a second goroutine: error %v", name, err)
		}
		if err := settle(claim); err == nil {
			t.Errorf("%s: went through", name)
		}
		if err := <-left; err == nil {
			t.Errorf("%s: the goroutine slept on", name)
		}
		db.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(600)' AND datname = current_database()")
		db.wantState(s, key, dedup.Claimed)
	}
}
