package pgstore_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/pgstore"
	"github.com/retrysafe/retrysafe/internal/testserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a condition is waited for.
const patience = 30 * time.Second

func unique() string {
	var b [8]byte
	rand.Read(b[:]) // never fails, by its documentation
	return hex.EncodeToString(b[:])
}

// database is a schema of a test's own, with the stores' tables and two that a
// handler may write to.
type database struct {
	testing.TB
	url    string
	schema string
	admin  *pgxpool.Pool
}

func newDatabase(tb testing.TB) *database {
	tb.Helper()
	db := &database{TB: tb, url: testserver.Postgres(tb), schema: `test "` + unique() + `"`}
	db.admin = db.pool(func(c *pgxpool.Config) { c.MaxConns = 4 })
	db.must(pgstore.Migrate(tb.Context(), db.admin, pgstore.WithSchema(db.schema)))
	db.exec("CREATE TABLE " + db.name("effects") + " (marker text PRIMARY KEY)")
	db.exec("CREATE TABLE " + db.name("accounts") + " (id integer PRIMARY KEY, balance bigint NOT NULL CHECK (balance >= 0))")
	db.exec("CREATE TABLE " + db.name("entries") + " (id bigserial PRIMARY KEY, account integer NOT NULL, amount bigint NOT NULL)")
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if _, err := db.admin.Exec(ctx, "DROP SCHEMA "+pgx.Identifier{db.schema}.Sanitize()+" CASCADE"); err != nil {
			tb.Error(err)
		}
	})
	return db
}

// pool makes a pool that is closed with the test.
func (db *database) pool(configure ...func(*pgxpool.Config)) *pgxpool.Pool {
	db.Helper()
	c, err := pgxpool.ParseConfig(db.url)
	db.must(err)
	c.MaxConns = 16
	for _, f := range configure {
		f(c)
	}
	pool, err := pgxpool.NewWithConfig(db.Context(), c)
	db.must(err)
	db.Cleanup(pool.Close)
	return pool
}

func (db *database) store(pool *pgxpool.Pool, opts ...pgstore.Option) *pgstore.Store {
	db.Helper()
	s, err := pgstore.New(pool, append([]pgstore.Option{pgstore.WithSchema(db.schema)}, opts...)...)
	db.must(err)
	db.Cleanup(func() { db.must(s.Close()) })
	return s
}

func (db *database) leased(pool *pgxpool.Pool, opts ...pgstore.Option) *pgstore.Leased {
	db.Helper()
	s, err := pgstore.NewLeased(pool, append([]pgstore.Option{pgstore.WithSchema(db.schema)}, opts...)...)
	db.must(err)
	db.Cleanup(func() { db.must(s.Close()) })
	return s
}

func (db *database) must(err error) {
	db.Helper()
	if err != nil {
		db.Fatal(err)
	}
}

func (db *database) exec(sql string, args ...any) {
	db.Helper()
	_, err := db.admin.Exec(db.Context(), sql, args...)
	db.must(err)
}

// count returns the one number that a query answers.
func (db *database) count(sql string, args ...any) (n int) {
	db.Helper()
	db.must(db.admin.QueryRow(db.Context(), sql, args...).Scan(&n))
	return n
}

// name is a table of the schema as it stands in SQL.
func (db *database) name(table string) string { return pgx.Identifier{db.schema, table}.Sanitize() }

func (db *database) written(marker string) bool {
	db.Helper()
	return db.count("SELECT count(*) FROM "+db.name("effects")+" WHERE marker = $1", marker) == 1
}

// write writes a marker as a handler does.
func (db *database) write(ctx context.Context, marker string) error {
	tx, err := pgstore.Tx(ctx)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "INSERT INTO "+db.name("effects")+" VALUES ($1)", marker)
	return err
}

// kill ends the sessions of an application and waits until they are gone.
func (db *database) kill(application string) {
	db.Helper()
	db.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1", application)
	db.eventually(func() bool {
		return db.count("SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", application) == 0
	})
}

func (db *database) eventually(condition func() bool) {
	db.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			db.Fatal("the condition did not come true")
		}
	}
}

// named gives a pool's sessions an application_name of their own.
func named(application string) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["application_name"] = application }
}

var fingerprint = dedup.FingerprintBytes([]byte("debit 5 EUR"))

func newKey() dedup.Key {
	return dedup.Key{Scope: "tenant", Method: "/test.v1.Test/Do", ID: unique() + unique()}
}

func request(key dedup.Key) dedup.ClaimRequest {
	req := dedup.ClaimRequest{Key: key, Fingerprint: fingerprint, Lease: time.Minute, Retention: time.Hour}
	rand.Read(req.Owner[:]) // never fails, by its documentation
	return req
}

func recorded(record string) dedup.Completion {
	return dedup.Completion{Record: []byte(record), Retention: time.Hour}
}

// claim asks for a claim that must be given.
func (db *database) claim(ctx context.Context, s dedup.Store, req dedup.ClaimRequest) dedup.Claim {
	db.Helper()
	answer, err := s.Claim(ctx, req)
	db.must(err)
	if answer.State != dedup.Claimed {
		db.Fatalf("answered %v, want %v", answer.State, dedup.Claimed)
	}
	return answer.Claim
}

// wantState asks for an operation as a newcomer with a second to wait.
func (db *database) wantState(s dedup.Store, key dedup.Key, want dedup.State) dedup.Answer {
	db.Helper()
	ctx, cancel := context.WithTimeout(db.Context(), time.Second)
	defer cancel()
	answer, err := s.Claim(ctx, request(key))
	db.must(err)
	if answer.State != want {
		db.Fatalf("answered %v, want %v", answer.State, want)
	}
	if answer.Claim != nil {
		db.must(answer.Claim.Release(db.Context()))
	}
	return answer
}
