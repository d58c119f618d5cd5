package pgstore_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/pgstore"
	"github.com/retrysafe/retrysafe/internal/testserver"
)

var update = flag.Bool("update", false, "write the golden file of the schema anew")

// empty is a database without tables.
func empty(tb testing.TB) *database {
	db := &database{TB: tb, url: testserver.Postgres(tb), schema: "public"}
	db.admin = db.pool(func(c *pgxpool.Config) { c.MaxConns = 4 })
	return db
}

func TestManyMigrateAtOnce(t *testing.T) {
	for _, opts := range [][]pgstore.Option{nil, {pgstore.WithSchema(`odd "name"; --`)}, {partitioned},
		{partitioned, pgstore.WithSchema(`odd "name"; --`)}} {
		db := empty(t)
		var all sync.WaitGroup
		for range 8 {
			pool := db.pool()
			all.Go(func() {
				if err := pgstore.Migrate(t.Context(), pool, opts...); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		s, err := pgstore.New(db.pool(), opts...)
		db.must(err)
		db.must(db.claim(t.Context(), s, request(newKey())).Complete(t.Context(), recorded("paid")))
		db.must(s.Close())
	}
}

func TestANewerSchemaIsLeftAlone(t *testing.T) {
	db := newDatabase(t)
	db.exec("UPDATE " + db.name("retrysafe_schema") + " SET version = 1000")
	if err := pgstore.Migrate(t.Context(), db.admin, pgstore.WithSchema(db.schema)); err == nil || !strings.Contains(err.Error(), "version 1000") {
		t.Errorf("error %v", err)
	}
	if n := db.count("SELECT version FROM " + db.name("retrysafe_schema")); n != 1000 {
		t.Errorf("the version is %d now", n)
	}
}

// TestARoleWithoutRightsStartsOnASchemaThatIsThere: applications often may not
// create tables.
func TestARoleWithoutRightsStartsOnASchemaThatIsThere(t *testing.T) {
	db := newDatabase(t)
	role := "retrysafe_" + unique()
	db.exec("CREATE ROLE " + role)
	t.Cleanup(func() {
		_, err := db.admin.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role)
		db.must(err)
	})
	schema := pgx.Identifier{db.schema}.Sanitize()
	db.exec(fmt.Sprintf("GRANT USAGE ON SCHEMA %[1]s TO %[2]s; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %[1]s TO %[2]s; "+
		"GRANT USAGE ON ALL SEQUENCES IN SCHEMA %[1]s TO %[2]s", schema, role))
	pool := db.pool(func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["role"] = role })
	db.must(pgstore.Migrate(t.Context(), pool, pgstore.WithSchema(db.schema)))
	for _, s := range []dedup.Store{db.store(pool), db.leased(pool)} {
		db.must(db.claim(t.Context(), s, request(newKey())).Complete(t.Context(), recorded("paid")))
	}
}

// TestSchemaIsPinned: what is in users' databases does not change by accident.
func TestSchemaIsPinned(t *testing.T) {
	db := empty(t)
	db.must(pgstore.Migrate(t.Context(), db.admin))
	db.wantSchema("testdata/schema_v1.txt", "retrysafe_schema", "%")
	db.must(pgstore.Migrate(t.Context(), db.admin, partitioned))
	db.wantSchema("testdata/partitions_v1.txt", "retrysafe_partitions", `retrysafe\_%\_by\_time%`)
	db.exec("DROP TABLE retrysafe_partitions, retrysafe_outcomes_by_time")
	db.wantSchema("testdata/schema_v1.txt", "retrysafe_schema", "%")
}

// wantSchema compares tables of names alike, and what belongs to them, with a
// file. Partitions are left out, for they have the time in their names.
func (db *database) wantSchema(golden, versions, tables string) {
	db.Helper()
	rows, err := db.admin.Query(db.Context(), `
SELECT format('column %s.%s %s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), CASE WHEN a.attnotnull THEN 'not null' ELSE 'null' END)
  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
  WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relname LIKE $1 AND a.attnum > 0 AND NOT a.attisdropped
UNION ALL SELECT pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid WHERE c.relnamespace = 'public'::regnamespace AND NOT c.relispartition AND c.relname LIKE $1
UNION ALL SELECT format('sequence %s %s cache %s', s.sequencename, s.data_type, s.cache_size) FROM pg_sequences s WHERE s.schemaname = 'public' AND s.sequencename LIKE $1
UNION ALL SELECT pg_get_functiondef(p.oid) FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace AND p.proname LIKE $1
UNION ALL SELECT format('version %s', version) FROM `+versions+`
ORDER BY 1`, tables)
	db.must(err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	db.must(err)
	got := strings.Join(lines, "\n") + "\n"
	if *update {
		db.must(os.WriteFile(golden, []byte(got), 0o644))
	}
	want, err := os.ReadFile(golden)
	db.must(err)
	if got != string(want) {
		db.Errorf("the schema is not that of %s: change it by a new version; got\n%s", golden, got)
	}
}

func TestOpenMigratesAndClosesItsPool(t *testing.T) {
	db := empty(t)
	s, err := pgstore.Open(t.Context(), db.url)
	db.must(err)
	key := newKey()
	db.must(db.claim(t.Context(), s, request(key)).Complete(t.Context(), recorded("paid")))
	db.must(s.Close())
	db.must(s.Close())
	if err := s.Pool().Ping(t.Context()); err == nil {
		t.Error("the pool is open")
	}
	again, err := pgstore.Open(t.Context(), db.url)
	db.must(err)
	defer again.Close()
	db.wantState(again, key, dedup.Completed)

	for _, url := range []string{"postgres://127.0.0.1:1/none?connect_timeout=1", "port=none"} {
		if _, err := pgstore.Open(t.Context(), url); err == nil {
			t.Errorf("%s was opened", url)
		}
	}
	if _, err := pgstore.Open(t.Context(), db.url, pgstore.WithSweepBatch(-1)); err == nil {
		t.Error("a bad option was accepted")
	}
}
