package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/pgstore"
)

func newBatch(sql string, args ...any) *pgx.Batch {
	var b pgx.Batch
	b.Queue(sql, args...)
	return &b
}

// debitBatch takes amount from account 1 and answers the new balance.
func (db *database) debitBatch(key dedup.Key, amount int) pgstore.Batch {
	b := pgstore.Batch{Key: key, Fingerprint: fingerprint, Retention: time.Hour,
		RecordSQL:  "SELECT convert_to(balance::text, 'UTF8') FROM " + db.name("accounts") + " WHERE id = $1 -- the new one",
		RecordArgs: []any{1},
	}
	b.Statements = newBatch("UPDATE "+db.name("accounts")+" SET balance = balance - $1 WHERE id = $2", amount, 1)
	b.Statements.Queue("INSERT INTO "+db.name("entries")+" (account, amount) VALUES ($1, $2)", 1, -amount)
	return b
}

func (db *database) entries() int { return db.count("SELECT count(*) FROM " + db.name("entries")) }

func TestOnceComputesItsRecord(t *testing.T) {
	for _, level := range levels {
		t.Run(string(level), func(t *testing.T) {
			db := newDatabase(t)
			db.exec("INSERT INTO " + db.name("accounts") + " VALUES (1, 100)")
			pool := db.pool()
			s := db.store(pool, pgstore.WithIsolation(level))
			elsewhere := db.store(pool, pgstore.WithIsolation(level))
			key := newKey()
			first, err := s.Once(t.Context(), db.debitBatch(key, 80))
			db.must(err)
			if string(first.Record) != "20" || first.Replayed {
				t.Errorf("%q, replayed %v", first.Record, first.Replayed)
			}
			// A second debit of 80 would break the balance's constraint.
			for _, store := range []*pgstore.Store{s, elsewhere} {
				repeat, err := store.Once(t.Context(), db.debitBatch(key, 80))
				db.must(err)
				if string(repeat.Record) != "20" || !repeat.Replayed {
					t.Errorf("%q, replayed %v", repeat.Record, repeat.Replayed)
				}
			}
			if n := db.entries(); n != 1 {
				t.Errorf("%d entries, want 1", n)
			}
		})
	}
}

func TestOnceThatFailsLeavesNothing(t *testing.T) {
	for _, level := range levels {
		t.Run(string(level), func(t *testing.T) {
			db := newDatabase(t)
			db.exec("INSERT INTO " + db.name("accounts") + " VALUES (1, 100)")
			s := db.store(db.pool(oneConnection), pgstore.WithIsolation(level))
			key := newKey()
			_, err := s.Once(t.Context(), db.debitBatch(key, 101))
			var pg *pgconn.PgError
			if !errors.As(err, &pg) || pg.ConstraintName != "accounts_balance_check" {
				t.Fatalf("error %v", err)
			}
			if strings.Contains(err.Error(), key.ID) {
				t.Errorf("the error shows the key: %v", err)
			}
			noRecord := db.debitBatch(key, 1)
			noRecord.RecordArgs = []any{2} // there is no such account
			if _, err := s.Once(t.Context(), noRecord); err == nil {
				t.Error("it took effect without a record")
			}
			if n := db.entries(); n != 0 {
				t.Errorf("%d entries, want none", n)
			}
			result, err := s.Once(t.Context(), db.debitBatch(key, 100))
			db.must(err)
			if string(result.Record) != "0" || result.Replayed {
				t.Errorf("%q, replayed %v", result.Record, result.Replayed)
			}
		})
	}
}

func TestOnceAtOnce(t *testing.T) {
	for _, level := range levels {
		t.Run(string(level), func(t *testing.T) {
			db := newDatabase(t)
			db.exec("INSERT INTO " + db.name("accounts") + " VALUES (1, 100)")
			stores := []*pgstore.Store{
				db.store(db.pool(), pgstore.WithIsolation(level)), db.store(db.pool(), pgstore.WithIsolation(level)),
			}
			key := newKey()
			var executed atomic.Int64
			var all sync.WaitGroup
			for i := range 32 {
				all.Go(func() {
					for {
						result, err := stores[i%2].Once(t.Context(), db.debitBatch(key, 80))
						if isSerializationFailure(err) {
							continue // whoever owns the hop's retries
						}
						if err != nil || string(result.Record) != "20" {
							t.Errorf("%q, error %v", result.Record, err)
						} else if !result.Replayed {
							executed.Add(1)
						}
						return
					}
				})
			}
			all.Wait()
			if n := executed.Load(); n != 1 || db.entries() != 1 {
				t.Errorf("executed %d times, %d entries", n, db.entries())
			}
		})
	}
}

// isSerializationFailure says whether a repeat may succeed. A record that
// another has made meanwhile is one, at levels at which it was not seen.
func isSerializationFailure(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "40001" || errors.Is(err, dedup.ErrLeaseLost)
}

func TestOnceBesideAClaim(t *testing.T) {
	db := newDatabase(t)
	db.exec("INSERT INTO " + db.name("accounts") + " VALUES (1, 100)")
	s := db.store(db.pool())
	key := newKey()
	claim := db.claim(t.Context(), s, request(key))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := s.Once(ctx, db.debitBatch(key, 80)); !errors.Is(err, dedup.ErrInProgress) {
		t.Errorf("error %v", err)
	}
	results := make(chan pgstore.OnceResult)
	go func() {
		result, err := s.Once(t.Context(), db.debitBatch(key, 80))
		if err != nil {
			t.Error(err)
		}
		results <- result
	}()
	db.eventually(db.somebodyWaits)
	db.must(claim.Release(t.Context()))
	if result := <-results; string(result.Record) != "20" || result.Replayed {
		t.Errorf("%q, replayed %v", result.Record, result.Replayed)
	}
	other := db.debitBatch(key, 80)
	other.Fingerprint = dedup.FingerprintBytes([]byte("another"))
	if _, err := s.Once(t.Context(), other); !errors.Is(err, dedup.ErrKeyReused) {
		t.Errorf("error %v", err)
	}
	if n := db.entries(); n != 1 {
		t.Errorf("%d entries, want 1", n)
	}
}

func TestOnceWithinAHandler(t *testing.T) {
	db := newDatabase(t)
	db.exec("INSERT INTO " + db.name("accounts") + " VALUES (1, 100)")
	s := db.store(db.pool(oneConnection))
	key := newKey()
	for _, complete := range []bool{false, true} {
		outer, ctx := db.outer(s)
		for _, replayed := range []bool{false, true} {
			result, err := s.Once(ctx, db.debitBatch(key, 80))
			db.must(err)
			if string(result.Record) != "20" || result.Replayed != replayed {
				t.Errorf("%q, replayed %v", result.Record, result.Replayed)
			}
		}
		if complete {
			db.must(outer.Complete(t.Context(), recorded("paid")))
		} else {
			db.must(outer.Release(t.Context()))
		}
	}
	if n := db.entries(); n != 1 {
		t.Errorf("%d entries, want 1", n)
	}
}

func TestOnceGivesResultsToTheQueries(t *testing.T) {
	db := newDatabase(t)
	s := db.store(db.pool())
	b := db.markerBatch(newKey())
	var answer int
	b.Statements.Queue("SELECT $1::int + 1", 41).QueryRow(func(row pgx.Row) error { return row.Scan(&answer) })
	_, err := s.Once(t.Context(), b)
	db.must(err)
	if answer != 42 {
		t.Errorf("%d, want 42", answer)
	}
}

func TestOnceRefusesWhatItCannotDo(t *testing.T) {
	db := newDatabase(t)
	s := db.store(db.pool())
	good := db.markerBatch(newKey())
	for name, change := range map[string]func(*pgstore.Batch){
		"no statements":    func(b *pgstore.Batch) { b.Statements = nil },
		"empty statements": func(b *pgstore.Batch) { b.Statements = &pgx.Batch{} },
		"two records":      func(b *pgstore.Batch) { b.RecordSQL = "SELECT ''::bytea" },
		"no retention":     func(b *pgstore.Batch) { b.Retention = 0 },
		"long key":         func(b *pgstore.Batch) { b.Key.ID = fmt.Sprintf("%2001d", 1) },
	} {
		b := good
		change(&b)
		if _, err := s.Once(t.Context(), b); err == nil {
			t.Errorf("%s: went through", name)
		}
	}
	if db.written(good.Key.ID) {
		t.Error("something was written")
	}
}
