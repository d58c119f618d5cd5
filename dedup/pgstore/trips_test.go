package pgstore_test

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/pgstore"
)

// tripCounter counts the round trips of a pool's connections: how often one
// reads for the first time after it has written.
type tripCounter struct {
	mu    sync.Mutex
	trips int
}

func (c *tripCounter) configure(config *pgxpool.Config) {
	config.MaxConns = 1
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return &countedConn{Conn: conn, counter: c}, err
	}
}

// during returns how many round trips f took.
func (c *tripCounter) during(f func()) int {
	c.mu.Lock()
	before := c.trips
	c.mu.Unlock()
	f()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trips - before
}

type countedConn struct {
	net.Conn
	counter *tripCounter
	written bool // guarded by counter.mu
}

func (c *countedConn) Write(b []byte) (int, error) {
	c.counter.mu.Lock()
	c.written = true
	c.counter.mu.Unlock()
	return c.Conn.Write(b)
}

func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.counter.mu.Lock()
	defer c.counter.mu.Unlock()
	if n > 0 && c.written {
		c.counter.trips++
		c.written = false
	}
	return n, err
}

// debit is the handler of two statements that the trips are counted for.
func (db *database) debit(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, "UPDATE "+db.name("accounts")+" SET balance = balance - $1 WHERE id = $2", 5, 1); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, "INSERT INTO "+db.name("entries")+" (account, amount) VALUES ($1, $2)", 1, -5)
	return err
}

func TestRoundTrips(t *testing.T) {
	db := newDatabase(t)
	db.exec("INSERT INTO " + db.name("accounts") + " VALUES (1, 1000000)")
	for _, tc := range []struct {
		name  string
		level pgx.TxIsoLevel
		want  map[string]int
	}{
		{"read committed", pgx.ReadCommitted,
			map[string]int{"complete": 4, "business error": 4, "release": 4, "replay": 1, "replay elsewhere": 2, "once": 1}},
		{"serializable", pgx.Serializable,
			map[string]int{"complete": 4, "business error": 4, "release": 4, "replay": 1, "replay elsewhere": 3, "once": 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var counter tripCounter
			pool := db.pool(counter.configure)
			s := db.store(pool, pgstore.WithIsolation(tc.level))
			operate := func(key dedup.Key, settle func(dedup.Claim) error) {
				claim := db.claim(t.Context(), s, request(key))
				ctx := claim.Context(t.Context())
				tx, err := pgstore.Tx(ctx)
				db.must(err)
				db.must(db.debit(ctx, tx))
				db.must(settle(claim))
			}
			// As another process does, elsewhere has never seen the operation.
			elsewhere := db.store(pool, pgstore.WithIsolation(tc.level))
			undo := recorded("no funds")
			undo.Undo = true
			key, batch := newKey(), newKey()
			steps := []struct {
				name string
				do   func()
			}{
				{"complete", func() {
					operate(newKey(), func(c dedup.Claim) error { return c.Complete(t.Context(), recorded("paid")) })
				}},
				{"business error", func() {
					operate(key, func(c dedup.Claim) error { return c.Complete(t.Context(), undo) })
				}},
				{"release", func() {
					operate(newKey(), func(c dedup.Claim) error { return c.Release(t.Context()) })
				}},
				{"replay", func() { db.wantState(s, key, dedup.Completed) }},
				{"replay elsewhere", func() { db.wantState(elsewhere, key, dedup.Completed) }},
				{"once", func() { db.once(s, batch, false) }},
			}
			for _, step := range steps {
				step.do() // the first use prepares the connection's statements
			}
			key, batch = newKey(), newKey()
			elsewhere = db.store(pool, pgstore.WithIsolation(tc.level))
			for _, step := range steps {
				if got := counter.during(step.do); got != tc.want[step.name] {
					t.Errorf("%s: %d round trips, want %d", step.name, got, tc.want[step.name])
				}
			}
		})
	}
}

func (db *database) once(s *pgstore.Store, key dedup.Key, replayed bool) {
	db.Helper()
	var debit pgx.Batch
	debit.Queue("UPDATE "+db.name("accounts")+" SET balance = balance - $1 WHERE id = $2", 5, 1)
	debit.Queue("INSERT INTO "+db.name("entries")+" (account, amount) VALUES ($1, $2)", 1, -5)
	result, err := s.Once(db.Context(), pgstore.Batch{
		Key: key, Fingerprint: fingerprint, Retention: request(key).Retention,
		Statements: &debit,
		Record:     []byte("paid"),
	})
	db.must(err)
	if result.Replayed != replayed || string(result.Record) != "paid" {
		db.Fatalf("replayed %v with %q", result.Replayed, result.Record)
	}
}
