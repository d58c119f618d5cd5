package replicatest

import (
	"encoding/binary"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/storetest"
)

// TestTheDatabasesClockDecides runs the conformance suite on a database whose
// clock is not the replicas': leases and retentions last as long as they should,
// by the suite's own stop watch.
func TestTheDatabasesClockDecides(t *testing.T) {
	for k, skew := range map[kind]time.Duration{postgres: 10 * time.Minute, postgresLeased: -10 * time.Minute} {
		t.Run(fmt.Sprintf("%s, %v", k, skew), func(t *testing.T) {
			t.Parallel()
			s := newStorage(t, k)
			shift := s.shiftClock(t, skew)
			store, _ := s.mortalStore(t, shift)
			s.wantShifted(t, store, skew)
			storetest.Run(t, s.suite(func(tb testing.TB) (dedup.Store, func()) { return s.mortalStore(tb, shift) }))
		})
	}
}

// shiftClock puts functions in front of those that PostgreSQL tells the time by.
// It returns what makes a pool's connections see them.
func (s storage) shiftClock(tb testing.TB, by time.Duration) func(*pgxpool.Config) {
	tb.Helper()
	pool := s.pool(tb)
	schema := s.Space + "_clock"
	sql := "CREATE SCHEMA " + schema + ";"
	for _, clock := range []string{"clock_timestamp", "statement_timestamp", "transaction_timestamp", "now"} {
		sql += fmt.Sprintf(`CREATE FUNCTION %s.%s() RETURNS timestamptz LANGUAGE sql VOLATILE
 AS $$ SELECT pg_catalog.%s() + interval '%d seconds' $$;`, schema, clock, clock, int(by.Seconds()))
	}
	_, err := pool.Exec(bounded(tb), sql)
	must(tb, err)
	return func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["search_path"] = schema + ", pg_catalog, public"
	}
}

// wantShifted fails the test where the store does not see the shifted clock:
// then it would prove nothing.
func (s storage) wantShifted(tb testing.TB, store dedup.Store, skew time.Duration) {
	tb.Helper()
	op := newOperation()
	answer, err := store.Claim(bounded(tb), dedup.ClaimRequest{
		Key: op.Key, Fingerprint: op.Fingerprint, Owner: dedup.Owner{1}, Lease: time.Minute, Retention: time.Hour,
	})
	must(tb, err)
	must(tb, answer.Claim.Complete(bounded(tb), dedup.Completion{Retention: time.Hour}))
	table := "retrysafe_outcomes"
	if s.Kind == postgresLeased {
		table = "retrysafe_leases"
	}
	rows, err := s.pool(tb).Query(bounded(tb), "SELECT expires_at FROM "+s.table(table))
	must(tb, err)
	expires, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[time.Time])
	must(tb, err)
	if by := time.Until(expires) - time.Hour - skew; by.Abs() > patience {
		tb.Fatalf("the record expires at %v, by the replicas' clock: %v off", expires, by)
	}
}

// TestAReplicaFromTheFuture: its clock is ten minutes ahead, which shows in the
// fence of the claim that it made, and nowhere else. It dies, and who takes over
// has a higher fence all the same, and waits for the lease, no shorter and no
// longer.
func TestAReplicaFromTheFuture(t *testing.T) {
	s := newStorage(t, redis)
	second := s.replica(t, "second")
	op := newOperation()
	first := job{Storage: s, Do: "die", Name: "first", ID: op.Key.ID, Lease: leaseOfTheDead}.start(t)
	asked, fence := first.executing()
	first.wantKilled()
	fence += uint64(10 * time.Minute / time.Microsecond)
	s.setFence(t, fence)

	a := second.do(op)
	second.wantExecuted(a)
	if a.fence <= fence {
		t.Errorf("fence %d, want one above %d", a.fence, fence)
	}
	if lasted := a.began.Sub(asked); lasted < leaseOfTheDead-10*time.Millisecond || lasted > patience/2 {
		t.Errorf("taken over after %v, want %v", lasted, leaseOfTheDead)
	}
	third := s.replica(t, "third")
	third.wantReplayed(third.do(op), "second")
}

// setFence changes the fence of the storage's one operation.
func (s storage) setFence(tb testing.TB, fence uint64) {
	tb.Helper()
	options, err := goredis.ParseURL(s.URL)
	must(tb, err)
	client := goredis.NewClient(options)
	defer client.Close()
	keys := client.Keys(bounded(tb), s.Space+":*").Val()
	if len(keys) != 1 {
		tb.Fatalf("%d keys, want the operation's alone", len(keys))
	}
	const fenceAt = 18 // as redisstore has it
	value := string(binary.BigEndian.AppendUint64(nil, fence))
	must(tb, client.SetRange(bounded(tb), keys[0], fenceAt, value).Err())
}

// tellTime are the ways in which a time of day gets out of a time.Time, or into
// one: methods and functions. What is left, Sub and the like, works on the
// monotonic clock.
var tellTime = []string{
	"Unix", "UnixMilli", "UnixMicro", "UnixNano", "Format", "AppendFormat", "Parse", "ParseInLocation", "Date",
	"Clock", "Year", "Month", "Day", "YearDay", "ISOWeek", "Weekday", "Hour", "Minute", "Second", "Nanosecond", "UTC",
	"Local", "In", "Zone", "MarshalBinary", "MarshalText", "MarshalJSON", "GobEncode",
}

// told are the places where the time of day is told, each with its reason.
var told = map[string]string{
	"dedup/memory.go":           "fences rise over a restart of the process",
	"dedup/cache_entries.go":    "beside the monotonic clock, which stands still in a suspended machine",
	"dedup/redisstore/value.go": "the fence of an operation's first claim",
}

// TestNobodyReadsTheTimeOfDay in the engine, or in a store whose replicas are on
// many machines.
func TestNobodyReadsTheTimeOfDay(t *testing.T) {
	found := map[string]bool{}
	for _, folder := range []string{"dedup", "dedup/pgstore", "dedup/redisstore", "dedup/redisstore/rueidisadapter"} {
		for _, file := range sources(t, folder) {
			for _, place := range tellings(t, file) {
				if _, ok := told[filepath.ToSlash(file)]; !ok {
					t.Errorf("%s: %s", file, place)
				}
				found[filepath.ToSlash(file)] = true
			}
		}
	}
	for file, reason := range told {
		if !found[file] {
			t.Errorf("%s does not tell the time of day any more: %s", file, reason)
		}
	}
}

// sources returns the files of a folder of the module that are no tests.
func sources(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", folder, "*.go"))
	must(t, err)
	files = slices.DeleteFunc(files, func(file string) bool { return strings.HasSuffix(file, "_test.go") })
	if len(files) == 0 {
		t.Fatalf("no sources in %s", folder)
	}
	for i, file := range files {
		files[i], err = filepath.Rel(filepath.Join("..", ".."), file)
		must(t, err)
	}
	return files
}

// tellings returns where a file tells the time of day.
func tellings(t *testing.T, file string) (places []string) {
	t.Helper()
	positions := token.NewFileSet()
	tree, err := parser.ParseFile(positions, filepath.Join("..", "..", file), nil, 0)
	must(t, err)
	ast.Inspect(tree, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if selector, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains(tellTime, selector.Sel.Name) {
			places = append(places, fmt.Sprintf("line %d calls %s", positions.Position(n.Pos()).Line, selector.Sel.Name))
		}
		return true
	})
	return places
}

// TestTheSearchFindsTheTimeOfDay in a store that is not searched.
func TestTheSearchFindsTheTimeOfDay(t *testing.T) {
	var found []string
	for _, file := range sources(t, "dedup/sqlitestore") {
		found = append(found, tellings(t, file)...)
	}
	if len(found) == 0 {
		t.Error("SQLite's clock is this machine's, and was not found")
	}
}
