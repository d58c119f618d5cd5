package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/ncruces/go-sqlite3/driver"

	"github.com/retrysafe/retrysafe/dedup"
)

const (
	benchDebit = `UPDATE account SET balance = balance - ? WHERE id = ?`
	benchEntry = `INSERT INTO entry (account, amount) VALUES (?, ?)`
)

var benchRecord = make([]byte, 120)

func createLedger(tb testing.TB, db *sql.DB) {
	tb.Helper()
	_, err := db.Exec(`
		CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL) STRICT;
		CREATE TABLE entry (id INTEGER PRIMARY KEY, account INTEGER NOT NULL, amount INTEGER NOT NULL) STRICT;
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
		INSERT INTO account (id, balance) SELECT i, 1000000 FROM n;`)
	if err != nil {
		tb.Fatal(err)
	}
}

func debit(ctx context.Context, q Querier, n uint64) error {
	account := n%1000 + 1
	if _, err := q.ExecContext(ctx, benchDebit, 5, account); err != nil {
		return err
	}
	_, err := q.ExecContext(ctx, benchEntry, account, -5)
	return err
}

// debitOnce is a handler of two statements under a claim with the keys that
// the client makes.
func debitOnce(ctx context.Context, s *Store, n uint64) error {
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	answer, err := s.Claim(ctx, request(id.String()))
	if err != nil {
		return err
	}
	if answer.State != dedup.Claimed {
		return fmt.Errorf("claim answered %v", answer.State)
	}
	handling := answer.Claim.Context(ctx)
	tx, err := Tx(handling)
	if err != nil {
		return err
	}
	if err := debit(handling, tx, n); err != nil {
		return err
	}
	return answer.Claim.Complete(ctx, dedup.Completion{Record: benchRecord, Retention: time.Hour})
}

// debitDirectly does the same statements in a transaction of database/sql's:
// what somebody would write who keeps keys and outcomes by hand.
func debitDirectly(ctx context.Context, db *sql.DB, n uint64) error {
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	key := keyOf(id.String())
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var found int
	err = tx.QueryRowContext(ctx, `SELECT count(*) FROM retrysafe_outcome WHERE scope = ? AND method = ? AND id = ?`,
		key.Scope, key.Method, key.ID).Scan(&found)
	if err != nil || found > 0 {
		return fmt.Errorf("found %d: %w", found, err)
	}
	if err := debit(ctx, tx, n); err != nil {
		return err
	}
	now := time.Now()
	_, err = tx.ExecContext(ctx, `INSERT INTO retrysafe_outcome
		(scope, method, id, fingerprint_version, fingerprint, fence, expires_at, record, recorded_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		key.Scope, key.Method, key.ID, int(fingerprint.Version), fingerprint.Sum[:], now.UnixMicro(),
		now.Add(time.Hour).UnixMicro(), benchRecord, now.UnixMicro())
	if err != nil {
		return err
	}
	return tx.Commit()
}

func openBench(b *testing.B, opts ...Option) *Store {
	s := open(b, opts...)
	createLedger(b, s.DB())
	return s
}

// openDirect opens the same schema for one connection of database/sql.
func openDirect(b *testing.B) *sql.DB {
	path := databasePath(b)
	db, err := driver.Open(path, setup)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	if err := Migrate(bounded(b), db); err != nil {
		b.Fatal(err)
	}
	createLedger(b, db)
	return db
}

// BenchmarkDebit compares group commit with a commit for each, and the store
// with plain database/sql, for one caller and for 64.
func BenchmarkDebit(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d/store=group", callers), func(b *testing.B) {
			s := openBench(b)
			measure(b, callers, func(n uint64) error { return debitOnce(context.Background(), s, n) })
			report(b, s)
		})
		b.Run(fmt.Sprintf("callers=%d/store=each", callers), func(b *testing.B) {
			s := openBench(b, WithGroupLimit(1, time.Second))
			measure(b, callers, func(n uint64) error { return debitOnce(context.Background(), s, n) })
			report(b, s)
		})
		b.Run(fmt.Sprintf("callers=%d/store=none", callers), func(b *testing.B) {
			db := openDirect(b)
			measure(b, callers, func(n uint64) error { return debitDirectly(context.Background(), db, n) })
		})
	}
}

func report(b *testing.B, s *Store) {
	stats := s.Stats()
	b.ReportMetric(float64(stats.Recorded)/float64(stats.Commits), "outcomes/commit")
}

func measure(b *testing.B, callers int, op func(n uint64) error) {
	b.Helper()
	b.ReportAllocs()
	var n atomic.Uint64
	total := uint64(b.N)
	errs := make(chan error, callers)
	b.ResetTimer()
	for range callers {
		go func() {
			for i := n.Add(1); i <= total; i = n.Add(1) {
				if err := op(i); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range callers {
		if err := <-errs; err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSweep shows what a claim waits while expired records are deleted.
func BenchmarkSweep(b *testing.B) {
	for _, sweeping := range []bool{false, true} {
		b.Run(fmt.Sprintf("sweeping=%v", sweeping), func(b *testing.B) {
			s := openBench(b, WithSweepInterval(time.Hour))
			age(b, s, 300_000, -time.Hour)
			ctx, cancel := context.WithCancel(context.Background())
			swept := make(chan error, 1)
			go func() {
				if sweeping {
					swept <- s.sweep(ctx)
				} else {
					swept <- nil
				}
			}()
			latencies := make([]time.Duration, b.N+1)
			measure(b, 8, func(n uint64) error {
				began := time.Now()
				err := debitOnce(context.Background(), s, n)
				latencies[n] = time.Since(began)
				return err
			})
			b.StopTimer()
			cancel()
			if err := <-swept; err != nil && ctx.Err() == nil {
				b.Fatal(err)
			}
			slices.Sort(latencies)
			b.ReportMetric(float64(latencies[len(latencies)*99/100].Nanoseconds()), "p99-ns")
			b.ReportMetric(float64(s.Stats().Swept)/b.Elapsed().Seconds(), "swept/s")
		})
	}
}

// BenchmarkGrowth shows what a claim costs among so many records.
func BenchmarkGrowth(b *testing.B) {
	for _, records := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprintf("records=%d", records), func(b *testing.B) {
			s := openBench(b)
			age(b, s, records, time.Hour)
			measure(b, 1, func(n uint64) error { return debitOnce(context.Background(), s, n) })
		})
	}
}

// age records operations with the keys that the client makes, which expire
// after d.
func age(b *testing.B, s *Store, n int, d time.Duration) {
	b.Helper()
	tx, err := s.DB().Begin()
	if err != nil {
		b.Fatal(err)
	}
	defer tx.Rollback()
	insert, err := tx.Prepare(`INSERT INTO retrysafe_outcome
		(scope, method, id, fingerprint_version, fingerprint, fence, recorded_at, expires_at, record)
		VALUES (?, ?, ?, 1, ?, 1, ?, ?, ?)`)
	if err != nil {
		b.Fatal(err)
	}
	now := time.Now()
	for range n {
		key := keyOf(uuid.Must(uuid.NewV7()).String())
		_, err := insert.Exec(key.Scope, key.Method, key.ID, fingerprint.Sum[:],
			now.UnixMicro(), now.Add(d).UnixMicro(), benchRecord)
		if err != nil {
			b.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkReplay answers from what is committed.
func BenchmarkReplay(b *testing.B) {
	s := openBench(b)
	mustComplete(b, take(b, context.Background(), s, "a"), string(benchRecord))
	req := request("a")
	measure(b, 1, func(uint64) error {
		answer, err := s.Claim(context.Background(), req)
		if err == nil && answer.State != dedup.Completed {
			err = fmt.Errorf("claim answered %v", answer.State)
		}
		return err
	})
}
