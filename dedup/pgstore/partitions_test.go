package pgstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/pgstore"
)

// day is a period in which tests seldom meet the end of one.
const day = int64(24 * 3600)

var (
	partitioned = pgstore.WithPartitions(24 * time.Hour)
	busily      = pgstore.WithSweepInterval(10 * time.Millisecond)
)

func newPartitioned(tb testing.TB) *database {
	db := newDatabase(tb)
	db.must(pgstore.Migrate(tb.Context(), db.admin, pgstore.WithSchema(db.schema), partitioned))
	return db
}

// partitionStart is when the present day began, and so its partition.
func (db *database) partitionStart() int64 {
	return int64(db.count("SELECT floor(extract(epoch FROM now()) / $1::bigint)::bigint * $1::bigint", day))
}

func partitionName(start, end int64) string {
	return fmt.Sprintf("retrysafe_outcomes_by_time_%d_%d", start, end)
}

// past makes the partition of a day that began so many days before the
// present one.
func (db *database) past(days int64) (name string) {
	db.Helper()
	start := db.partitionStart() - days*day
	name = partitionName(start, start+day)
	db.exec(fmt.Sprintf("CREATE TABLE %s PARTITION OF %s FOR VALUES FROM (to_timestamp(%d)) TO (to_timestamp(%d))",
		db.name(name), db.name("retrysafe_outcomes_by_time"), start, start+day))
	return name
}

const insertPast = ` (id, method, scope, fingerprint_version, fingerprint, fence, record, completed_at, expires_at)
 VALUES ($1, $2, $3, $4, $5, 0, $6, to_timestamp($7), now() + $8 * interval '1 microsecond')`

// outcome returns the parameters of insertPast for the start of a past day.
func (db *database) outcome(key dedup.Key, days int64, expires time.Duration) []any {
	return []any{[]byte(key.ID), []byte(key.Method), []byte(key.Scope), int16(fingerprint.Version), fingerprint.Sum[:],
		[]byte("past"), db.partitionStart() - days*day, expires.Microseconds()}
}

func (db *database) recordPast(key dedup.Key, days int64, expires time.Duration) {
	db.Helper()
	db.exec("INSERT INTO "+db.name("retrysafe_outcomes_by_time")+insertPast, db.outcome(key, days, expires)...)
}

func (db *database) exists(table string) bool {
	db.Helper()
	return db.count("SELECT count(*) FROM pg_tables WHERE schemaname = $1 AND tablename = $2", db.schema, table) == 1
}

// ahead returns until when partitions follow each other from the present on.
func (db *database) ahead() (until int64) {
	db.Helper()
	for until = db.partitionStart(); ; {
		n := db.count(`SELECT coalesce(max(split_part(relid::text, '_', 6)::bigint), 0) FROM (SELECT trim(both '"' FROM relid::regclass::text) AS relid
 FROM pg_partition_tree($1::regclass) WHERE isleaf) AS leaves WHERE split_part(relid::text, '_', 5) = $2::bigint::text`,
			db.name("retrysafe_outcomes_by_time"), until)
		if n == 0 {
			return until
		}
		until = int64(n)
	}
}

func TestPartitionsAreMadeAhead(t *testing.T) {
	db := newPartitioned(t)
	now := db.partitionStart()
	if until := db.ahead(); until < now+3*day {
		t.Fatalf("there are partitions for %d seconds", until-now)
	}
	drop := func(days ...int64) {
		for _, d := range days {
			db.exec("DROP TABLE IF EXISTS " + db.name(partitionName(now+d*day, now+(d+1)*day)))
		}
	}
	t.Run("by the sweeper", func(t *testing.T) {
		db := db.of(t)
		drop(1, 2, 3)
		db.store(db.pool(), partitioned, busily)
		db.store(db.pool(), partitioned, busily)
		db.eventually(func() bool { return db.ahead() >= now+3*day })
	})
	t.Run("by claims, into a gap", func(t *testing.T) {
		db := db.of(t)
		drop(0, 1)
		s := db.store(db.pool(), partitioned, pgstore.WithoutSweeping())
		db.must(db.claim(t.Context(), s, request(newKey())).Complete(t.Context(), recorded("paid")))
		if until := db.ahead(); until < now+3*day {
			t.Errorf("there are partitions for %d seconds", until-now)
		}
	})
	t.Run("of another period", func(t *testing.T) {
		db := db.of(t)
		s := db.store(db.pool(), pgstore.WithPartitions(5*24*time.Hour), pgstore.WithoutSweeping())
		db.must(db.claim(t.Context(), s, request(newKey())).Release(t.Context()))
		if until := db.ahead(); until < now+10*day || until%(5*day) != 0 {
			t.Errorf("there are partitions for %d seconds, until %d", until-now, until)
		}
	})
}

// TestClaimsFromManyMakePartitionsOnce: none may fail for another's.
func TestClaimsFromManyMakePartitionsOnce(t *testing.T) {
	db := newPartitioned(t)
	now := db.partitionStart()
	for d := range int64(3) {
		db.exec("DROP TABLE " + db.name(partitionName(now+d*day, now+(d+1)*day)))
	}
	errs := make(chan error)
	for range 8 {
		s := db.store(db.pool(), partitioned, pgstore.WithoutSweeping())
		go func() {
			answer, err := s.Claim(t.Context(), request(newKey()))
			if err == nil {
				err = answer.Claim.Complete(t.Context(), recorded("paid"))
			}
			errs <- err
		}()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestPartitionsAreDroppedWhenAllHasExpiredAndNotBefore(t *testing.T) {
	db := newPartitioned(t)
	live, expired, empty, recent := db.past(9), db.past(5), db.past(3), db.past(1)
	key := newKey()
	db.recordPast(key, 9, time.Hour)
	db.recordPast(newKey(), 9, -time.Hour)
	db.recordPast(newKey(), 5, -time.Millisecond)
	db.recordPast(newKey(), 1, -time.Hour) // an INSERT may still be on its way there
	s := db.store(db.pool(), partitioned, busily)
	db.store(db.pool(), partitioned, busily)
	db.eventually(func() bool { return !db.exists(expired) && !db.exists(empty) })
	db.wantState(s, key, dedup.Completed)
	db.exec("UPDATE "+db.name("retrysafe_outcomes_by_time")+" SET expires_at = now() WHERE id = $1", []byte(key.ID))
	db.eventually(func() bool { return !db.exists(live) })
	if !db.exists(recent) {
		t.Error("a partition is gone whose period has just ended")
	}
	db.wantState(s, key, dedup.Claimed)
}

// TestARowThatIsNotCommittedKeepsItsPartition: nobody else sees it.
func TestARowThatIsNotCommittedKeepsItsPartition(t *testing.T) {
	db := newPartitioned(t)
	name, key := db.past(5), newKey()
	tx, err := db.admin.Begin(t.Context())
	db.must(err)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	_, err = tx.Exec(t.Context(), "INSERT INTO "+db.name("retrysafe_outcomes_by_time")+insertPast, db.outcome(key, 5, time.Hour)...)
	db.must(err)
	s := db.store(db.pool(), partitioned, busily)
	db.eventually(func() bool {
		return db.count("SELECT count(*) FROM pg_locks WHERE relation = $1::regclass AND mode = 'ShareLock' AND NOT granted", db.name(name)) > 0
	})
	db.must(tx.Commit(t.Context()))
	later := db.past(4)
	db.eventually(func() bool { return !db.exists(later) }) // so the other was looked at again
	db.wantState(s, key, dedup.Completed)
}

// TestClaimsGoOnWhilePartitionsAreMadeAndDropped: a handler that takes its time holds
// up neither claims nor the end of its own.
func TestClaimsGoOnWhilePartitionsAreMadeAndDropped(t *testing.T) {
	db := newPartitioned(t)
	name := db.past(5)
	hasty := db.pool(func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["lock_timeout"] = "250ms" })
	s := db.store(hasty, partitioned, pgstore.WithoutSweeping())
	db.must(db.claim(t.Context(), s, request(newKey())).Release(t.Context()))
	now := db.partitionStart()
	db.exec("DROP TABLE " + db.name(partitionName(now+2*day, now+3*day)))
	held := db.claim(t.Context(), s, request(newKey()))
	db.store(db.pool(), partitioned, busily)
	db.eventually(func() bool {
		return db.count("SELECT count(*) FROM pg_inherits WHERE inhrelid = to_regclass($1) AND inhdetachpending", db.name(name)) == 1
	})
	if until := db.ahead(); until < now+3*day {
		t.Errorf("there are partitions for %d seconds", until-now)
	}
	for range 20 {
		key := newKey()
		db.must(db.claim(t.Context(), s, request(key)).Complete(t.Context(), recorded("paid")))
		db.wantState(s, key, dedup.Completed)
	}
	if !db.exists(name) {
		t.Error("the partition was dropped under a transaction that may use it")
	}
	db.must(held.Complete(t.Context(), recorded("late")))
	db.eventually(func() bool { return !db.exists(name) })
}

// TestADetachThatWasInterruptedIsFinished, and what was detached with live
// outcomes comes back.
func TestADetachThatWasInterruptedIsFinished(t *testing.T) {
	db := newPartitioned(t)
	pending, detached, key := db.past(7), db.past(5), newKey()
	db.recordPast(key, 5, time.Hour)
	db.exec("ALTER TABLE " + db.name("retrysafe_outcomes_by_time") + " DETACH PARTITION " + db.name(detached))
	s := db.store(db.pool(), partitioned, pgstore.WithoutSweeping())
	held := db.claim(t.Context(), s, request(newKey()))
	ctx, cancel := context.WithCancel(t.Context())
	interrupted := make(chan error, 1)
	go func() {
		_, err := db.admin.Exec(ctx, "ALTER TABLE "+db.name("retrysafe_outcomes_by_time")+" DETACH PARTITION "+db.name(pending)+" CONCURRENTLY")
		interrupted <- err
	}()
	db.eventually(func() bool { return db.count("SELECT count(*) FROM pg_inherits WHERE inhdetachpending") == 1 })
	cancel()
	if err := <-interrupted; err == nil {
		t.Fatal("nothing was interrupted")
	}
	db.must(held.Release(t.Context()))
	db.store(db.pool(), partitioned, busily)
	db.eventually(func() bool {
		return !db.exists(pending) && db.count("SELECT count(*) FROM pg_inherits WHERE inhrelid = $1::regclass", db.name(detached)) == 1
	})
	db.wantState(s, key, dedup.Completed)
}

func TestWhatExpiredInAnOlderPartitionIsNotInTheWay(t *testing.T) {
	db := newPartitioned(t)
	db.past(5)
	db.exec("INSERT INTO " + db.name("accounts") + " VALUES (1, 100)")
	s := db.store(db.pool(), partitioned, pgstore.WithoutSweeping())

	claimed := newKey()
	db.recordPast(claimed, 5, -time.Hour)
	db.must(db.claim(t.Context(), s, request(claimed)).Complete(t.Context(), recorded("new")))
	if answer := db.wantState(s, claimed, dedup.Completed); string(answer.Record) != "new" {
		t.Errorf("the record is %q", answer.Record)
	}

	computed := newKey()
	db.recordPast(computed, 5, -time.Hour)
	known := db.debitBatch(newKey(), 10)
	db.recordPast(known.Key, 5, -time.Hour)
	known.Record, known.RecordSQL, known.RecordArgs = []byte("known"), "", nil
	for _, replayed := range []bool{false, true, true} {
		for want, b := range map[string]pgstore.Batch{"known": known, "": db.debitBatch(computed, 10)} {
			result, err := s.Once(t.Context(), b)
			db.must(err)
			if result.Replayed != replayed || want != "" && string(result.Record) != want {
				t.Errorf("%q, replayed %v, want %q, %v", result.Record, result.Replayed, want, replayed)
			}
		}
	}
	if n := db.entries(); n != 2 {
		t.Errorf("%d debits, want 2", n)
	}
	if n := db.count("SELECT count(*) FROM " + db.name("retrysafe_outcomes_by_time") + " WHERE record = 'past'"); n != 3 {
		t.Errorf("%d of 3 rows are left to their partition", n)
	}
}

func TestWithoutThePartitionedTableTheErrorSaysWhatToDo(t *testing.T) {
	db := newDatabase(t)
	s := db.store(db.pool(), partitioned, pgstore.WithoutSweeping())
	_, claimErr := s.Claim(t.Context(), request(newKey()))
	_, onceErr := s.Once(t.Context(), db.debitBatch(newKey(), 1))
	for _, err := range []error{claimErr, onceErr} {
		if err == nil || !strings.Contains(err.Error(), "run Migrate with that option") {
			t.Errorf("error %v", err)
		}
	}
}

// TestAnOutcomeWithoutAPartitionUndoesItsHandler, and the next claim makes one.
func TestAnOutcomeWithoutAPartitionUndoesItsHandler(t *testing.T) {
	db := newPartitioned(t)
	db.exec("INSERT INTO " + db.name("accounts") + " VALUES (1, 100)")
	s := db.store(db.pool(), partitioned, pgstore.WithoutSweeping())
	db.must(db.claim(t.Context(), s, request(newKey())).Release(t.Context()))
	drop := func() {
		now := db.partitionStart()
		db.exec("DROP TABLE " + db.name(partitionName(now, now+day)))
	}
	drop()
	key := newKey()
	claim := db.claim(t.Context(), s, request(key))
	db.must(db.write(claim.Context(t.Context()), key.ID))
	err := claim.Complete(t.Context(), recorded("paid"))
	if err == nil || !strings.Contains(err.Error(), "no partition for the present") {
		t.Errorf("error %v", err)
	}
	if db.written(key.ID) {
		t.Error("the handler's writes are there")
	}
	db.must(db.claim(t.Context(), s, request(key)).Complete(t.Context(), recorded("paid")))

	drop()
	if _, err := s.Once(t.Context(), db.debitBatch(key2(key), 1)); err == nil || !strings.Contains(err.Error(), "no partition for the present") {
		t.Errorf("error %v", err)
	}
	if _, err := s.Once(t.Context(), db.debitBatch(key2(key), 1)); err != nil || db.entries() != 1 {
		t.Errorf("error %v, %d entries", err, db.entries())
	}
}

// key2 is another operation of the same method.
func key2(key dedup.Key) dedup.Key {
	key.ID += "-2"
	return key
}
