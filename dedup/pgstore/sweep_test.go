package pgstore_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/pgstore"
)

// fill fills a table with rows of which the first have expired.
func (db *database) fill(table string, expired, live int) {
	db.Helper()
	columns, values := "fingerprint_version, fingerprint, fence, expires_at", "1, '', 1"
	if table == "retrysafe_outcomes" {
		columns, values = "record, completed_at, "+columns, "'', now(), "+values
	} else {
		columns, values = "owner, attempt, state, waited, lease_until, "+columns, "'', 1, 2, false, now(), "+values
	}
	db.exec("INSERT INTO "+db.name(table)+" (id, method, scope, "+columns+") SELECT i::text::bytea, '', '', "+values+
		", now() + CASE WHEN i <= $1 THEN interval '-1 hour' ELSE interval '1 hour' END FROM generate_series(1, $1::integer + $2::integer) AS i", expired, live)
}

// sweepers start a store that sweeps the table.
var sweepers = map[string]func(*database, ...pgstore.Option) dedup.Store{
	"retrysafe_outcomes": func(db *database, opts ...pgstore.Option) dedup.Store { return db.store(db.pool(), opts...) },
	"retrysafe_leases":   func(db *database, opts ...pgstore.Option) dedup.Store { return db.leased(db.pool(), opts...) },
}

func TestWhatHasExpiredIsSwept(t *testing.T) {
	for table, start := range sweepers {
		t.Run(table, func(t *testing.T) {
			db := newDatabase(t)
			db.fill(table, 250, 7)
			// Somebody holds a row that has expired. Nobody waits for that.
			tx, err := db.admin.Begin(t.Context())
			db.must(err)
			_, err = tx.Exec(t.Context(), "SELECT FROM "+db.name(table)+" WHERE id = '1' FOR UPDATE")
			db.must(err)
			start(db, pgstore.WithSweepInterval(10*time.Millisecond), pgstore.WithSweepBatch(100))
			start(db, pgstore.WithSweepInterval(10*time.Millisecond), pgstore.WithSweepBatch(100))
			db.eventually(func() bool { return db.count("SELECT count(*) FROM "+db.name(table)) == 7+1 })
			db.must(tx.Rollback(t.Context()))
			db.eventually(func() bool { return db.count("SELECT count(*) FROM "+db.name(table)) == 7 })
		})
	}
}

func TestWithoutSweeping(t *testing.T) {
	db := newDatabase(t)
	db.fill("retrysafe_outcomes", 10, 0)
	sweeps := db.store(db.pool(), pgstore.WithSweepInterval(time.Hour))
	db.store(db.pool(), pgstore.WithSweepInterval(time.Millisecond), pgstore.WithoutSweeping())
	for range 20 {
		db.must(db.claim(t.Context(), sweeps, request(newKey())).Release(t.Context()))
	}
	if n := db.count("SELECT count(*) FROM " + db.name("retrysafe_outcomes")); n != 10 {
		t.Errorf("%d of 10 rows are left", n)
	}
}

// TestASweepThatFailsIsLoggedAndTriedAgain: no caller learns of it.
func TestASweepThatFailsIsLoggedAndTriedAgain(t *testing.T) {
	db := newDatabase(t)
	db.fill("retrysafe_outcomes", 10, 0)
	db.exec("ALTER TABLE " + db.name("retrysafe_outcomes") + " RENAME TO elsewhere")
	var log syncBuffer
	db.store(db.pool(), pgstore.WithSweepInterval(10*time.Millisecond), pgstore.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	db.eventually(func() bool { return strings.Contains(log.String(), "sweeping failed") })
	db.exec("ALTER TABLE " + db.name("elsewhere") + " RENAME TO retrysafe_outcomes")
	db.eventually(func() bool { return db.count("SELECT count(*) FROM "+db.name("retrysafe_outcomes")) == 0 })
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
