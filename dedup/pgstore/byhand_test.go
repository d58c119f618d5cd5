package pgstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe/dedup/pgstore"
	"github.com/retrysafe/retrysafe/dedup/storetest"
)

// splitByHand replaces the tables by ones with the same columns and indexes
// that are partitioned by the ID, as docs/scaling.md shows.
func (db *database) splitByHand() {
	db.Helper()
	for _, table := range []string{"retrysafe_outcomes", "retrysafe_leases"} {
		name := db.name(table)
		db.exec("ALTER TABLE " + name + " RENAME TO whole")
		db.exec("CREATE TABLE " + name + " (LIKE " + db.name("whole") + " INCLUDING ALL) PARTITION BY HASH (id)")
		for i := range 4 {
			db.exec(fmt.Sprintf("CREATE TABLE %s PARTITION OF %s FOR VALUES WITH (MODULUS 4, REMAINDER %d)",
				db.name(fmt.Sprintf("%s_%d", table, i)), name, i))
		}
		db.exec("DROP TABLE " + db.name("whole"))
	}
}

// Not at SERIALIZABLE, where it makes more transactions fail than need to.
func TestTablesThatAreSplitByHandConform(t *testing.T) {
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			db.splitByHand()
			storetest.Run(t, func(tb testing.TB) storetest.Storage { return db.transactional(tb, pgstore.WithIsolation(level)) })
		})
	}
	t.Run("leased", func(t *testing.T) {
		t.Parallel()
		db := newDatabase(t)
		db.splitByHand()
		storetest.Run(t, db.leasedStorage)
	})
}

// TestASweepLeavesOtherPartitionsAlone: rows of two partitions stand at places
// of the same name.
func TestASweepLeavesOtherPartitionsAlone(t *testing.T) {
	for table, start := range sweepers {
		t.Run(table, func(t *testing.T) {
			db := newDatabase(t)
			db.splitByHand()
			db.fill(table, 100, 100)
			name := db.name(table)
			if n := db.count("SELECT count(*) FROM " + name + " AS a JOIN " + name + ` AS b ON a.ctid = b.ctid
 WHERE a.tableoid <> b.tableoid AND a.expires_at > now() AND b.expires_at <= now()`); n == 0 {
				t.Fatal("no row stands where one has expired in another partition")
			}
			// Somebody holds a row that has expired. Nobody waits for that.
			tx, err := db.admin.Begin(t.Context())
			db.must(err)
			_, err = tx.Exec(t.Context(), "SELECT FROM "+name+" WHERE id = '1' FOR UPDATE")
			db.must(err)
			start(db, pgstore.WithSweepInterval(time.Millisecond))
			db.eventually(func() bool { return db.count("SELECT count(*) FROM "+name+" WHERE expires_at <= now()") == 1 })
			if n := db.count("SELECT count(*) FROM " + name + " WHERE expires_at > now()"); n != 100 {
				t.Errorf("%d rows are left of 100 that have not expired", n)
			}
			db.must(tx.Rollback(t.Context()))
			db.eventually(func() bool { return db.count("SELECT count(*) FROM "+name) == 100 })
		})
	}
}
