package pgstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/pgstore"
	"github.com/retrysafe/retrysafe/dedup/storetest"
)

const benchAccounts = 1000

// bench is a debit of two statements, done in the ways that are compared.
type bench struct {
	*database
	pool                                              *pgxpool.Pool
	store                                             *pgstore.Store
	keys                                              []dedup.Key // of completed operations
	debitSQL, entrySQL, naiveClaimSQL, naiveRecordSQL string
}

func newBench(b *testing.B, callers int) *bench {
	db := newDatabase(b)
	db.exec("INSERT INTO "+db.name("accounts")+" SELECT i, 1000000000 FROM generate_series(0, $1::integer - 1) AS i", benchAccounts)
	db.exec("CREATE TABLE " + db.name("naive") + " (key text PRIMARY KEY, fingerprint bytea NOT NULL, response bytea, created_at timestamptz NOT NULL DEFAULT now())")
	pool := db.pool(func(c *pgxpool.Config) { c.MaxConns = int32(min(callers, 64)) })
	n := &bench{
		database: db, pool: pool, store: db.store(pool, pgstore.WithoutSweeping()),
		debitSQL:       "UPDATE " + db.name("accounts") + " SET balance = balance - $1 WHERE id = $2",
		entrySQL:       "INSERT INTO " + db.name("entries") + " (account, amount) VALUES ($1, $2)",
		naiveClaimSQL:  "INSERT INTO " + db.name("naive") + " (key, fingerprint) VALUES ($1, $2) ON CONFLICT DO NOTHING",
		naiveRecordSQL: "UPDATE " + db.name("naive") + " SET response = $2 WHERE key = $1",
	}
	for range 1000 {
		key := risingKey()
		db.must(n.deduplicated(b.Context(), key))
		n.keys = append(n.keys, key)
	}
	return n
}

// risingKey rises with time, as the keys do that our client makes.
func risingKey() dedup.Key {
	key := newKey()
	key.ID = fmt.Sprintf("%016x%s", time.Now().UnixNano(), unique())
	return key
}

func (n *bench) debit(ctx context.Context, tx pgx.Tx) error {
	account := rand.N(benchAccounts)
	if _, err := tx.Exec(ctx, n.debitSQL, 1, account); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, n.entrySQL, account, -1)
	return err
}

func (n *bench) bare(ctx context.Context) error {
	return pgx.BeginFunc(ctx, n.pool, func(tx pgx.Tx) error { return n.debit(ctx, tx) })
}

// naive is what is commonly written by hand: six trips.
func (n *bench) naive(ctx context.Context) error {
	key := risingKey()
	return pgx.BeginFunc(ctx, n.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, n.naiveClaimSQL, key.ID, fingerprint.Sum[:]); err != nil {
			return err
		}
		if err := n.debit(ctx, tx); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, n.naiveRecordSQL, key.ID, benchRecord)
		return err
	})
}

var benchRecord = make([]byte, 200)

func (n *bench) deduplicated(ctx context.Context, key dedup.Key) error {
	answer, err := n.store.Claim(ctx, request(key))
	if err != nil {
		return err
	}
	if answer.State != dedup.Claimed {
		return fmt.Errorf("answered %v", answer.State)
	}
	ctx = answer.Claim.Context(ctx)
	tx, err := pgstore.Tx(ctx)
	if err != nil {
		return err
	}
	if err := n.debit(ctx, tx); err != nil {
		return err
	}
	return answer.Claim.Complete(ctx, dedup.Completion{Record: benchRecord, Retention: time.Hour})
}

func (n *bench) oneTrip(ctx context.Context) error {
	account := rand.N(benchAccounts)
	var statements pgx.Batch
	statements.Queue(n.debitSQL, 1, account)
	statements.Queue(n.entrySQL, account, -1)
	_, err := n.store.Once(ctx, pgstore.Batch{Key: risingKey(), Fingerprint: fingerprint, Retention: time.Hour,
		Statements: &statements, Record: benchRecord})
	return err
}

func (n *bench) replay(ctx context.Context) error {
	answer, err := n.store.Claim(ctx, request(n.keys[rand.N(len(n.keys))]))
	if err == nil && answer.State != dedup.Completed {
		err = fmt.Errorf("answered %v", answer.State)
	}
	return err
}

// BenchmarkDebit compares throughput in rounds that take turns, so that what
// slows the machine down slows all of them, and reports the medians' ratios.
func BenchmarkDebit(b *testing.B) {
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			n := newBench(b, callers)
			ways := []struct {
				name string
				do   func(context.Context) error
			}{
				{"bare", n.bare},
				{"naive", n.naive},
				{"dedup", func(ctx context.Context) error { return n.deduplicated(ctx, risingKey()) }},
				{"once", n.oneTrip},
				{"replay", n.replay},
			}
			rates := make([][]float64, len(ways))
			for b.Loop() {
				for i, way := range ways {
					rates[i] = append(rates[i], n.rate(callers, 400*time.Millisecond, way.do))
				}
			}
			median := make(map[string]float64)
			for i, way := range ways {
				slices.Sort(rates[i])
				median[way.name] = rates[i][len(rates[i])/2]
				b.ReportMetric(median[way.name], way.name+"/s")
			}
			b.ReportMetric(median["dedup"]/median["bare"], "dedup:bare")
			b.ReportMetric(median["dedup"]/median["naive"], "dedup:naive")
			b.ReportMetric(median["once"]/median["bare"], "once:bare")
			b.ReportMetric(median["replay"]/median["bare"], "replay:bare")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// rate returns how often per second the callers did it.
func (n *bench) rate(callers int, d time.Duration, do func(context.Context) error) float64 {
	var done atomic.Int64
	var all sync.WaitGroup
	start := time.Now()
	for range callers {
		all.Go(func() {
			for time.Since(start) < d {
				if err := do(n.Context()); err != nil {
					n.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	return float64(done.Load()) / time.Since(start).Seconds()
}

func BenchmarkStore(b *testing.B) {
	storetest.Bench(b, func(tb testing.TB) storetest.Storage { return newDatabase(tb).transactional(tb) })
}

func BenchmarkLeased(b *testing.B) {
	storetest.Bench(b, func(tb testing.TB) storetest.Storage { return newDatabase(tb).leasedStorage(tb) })
}

// BenchmarkSweeping compares the latency of operations while a million expired
// outcomes are swept with that after.
func BenchmarkSweeping(b *testing.B) {
	const expired = 1_000_000
	n := newBench(b, 4)
	for b.Loop() {
		n.exec("TRUNCATE " + n.name("retrysafe_outcomes"))
		n.fill("retrysafe_outcomes", expired, 0)
		n.exec("VACUUM ANALYZE " + n.name("retrysafe_outcomes"))
		sweeper, err := pgstore.New(n.admin, pgstore.WithSchema(n.schema), pgstore.WithSweepInterval(time.Millisecond))
		n.must(err)
		left := func() int {
			return n.count("SELECT count(*) FROM (SELECT FROM " + n.name("retrysafe_outcomes") + " WHERE expires_at <= now() LIMIT 1) AS expired")
		}
		during := n.latencies(func() bool { return left() > 0 })
		n.must(sweeper.Close())
		rest := time.Now()
		after := n.latencies(func() bool { return time.Since(rest) < 5*time.Second })
		b.ReportMetric(float64(percentile(during, 99).Microseconds()), "p99-during-us")
		b.ReportMetric(float64(percentile(after, 99).Microseconds()), "p99-after-us")
		b.ReportMetric(float64(percentile(during, 99))/float64(percentile(after, 99)), "during:after")
	}
}

// latencies executes operations from two callers while it is to go on.
func (n *bench) latencies(goOn func() bool) (all []time.Duration) {
	var stop atomic.Bool
	var mu sync.Mutex
	var callers sync.WaitGroup
	for range 2 {
		callers.Go(func() {
			for !stop.Load() {
				start := time.Now()
				if err := n.deduplicated(n.Context(), risingKey()); err != nil {
					n.Error(err)
					return
				}
				mu.Lock()
				all = append(all, time.Since(start))
				mu.Unlock()
			}
		})
	}
	for goOn() {
		time.Sleep(100 * time.Millisecond)
	}
	stop.Store(true)
	callers.Wait()
	return all
}

func percentile(latencies []time.Duration, p int) time.Duration {
	slices.Sort(latencies)
	return latencies[len(latencies)*p/100]
}
