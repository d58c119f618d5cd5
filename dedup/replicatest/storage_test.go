package replicatest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/pgstore"
	"github.com/retrysafe/retrysafe/dedup/redisstore"
	"github.com/retrysafe/retrysafe/dedup/sqlitestore"
	"github.com/retrysafe/retrysafe/internal/testserver"
)

// kind is a kind of store.
type kind string

const (
	sqlite         kind = "SQLite"
	postgres       kind = "PostgreSQL"
	postgresLeased kind = "PostgreSQL with leases"
	redis          kind = "Redis"
)

var (
	all           = []kind{sqlite, postgres, postgresLeased, redis}
	transactional = []kind{sqlite, postgres}
	leased        = []kind{postgresLeased, redis}
)

func (k kind) transactional() bool { return k == sqlite || k == postgres }

// storage is where replicas keep their operations, and their effects: in the
// same database where a handler's writes are part of the transaction, and in a
// file where they are not. It can be told to another process.
type storage struct {
	Kind    kind
	URL     string // or path
	Space   string // the schema or the prefix of the test's own
	Effects string // the file
}

// newStorage makes a storage on a server that tests share.
func newStorage(tb testing.TB, k kind) storage {
	tb.Helper()
	switch k {
	case sqlite:
		return newStorageAt(tb, k, filepath.Join(tb.TempDir(), "test.db"))
	case redis:
		return newStorageAt(tb, k, testserver.Redis(tb))
	}
	return newStorageAt(tb, k, testserver.Postgres(tb))
}

func newStorageAt(tb testing.TB, k kind, url string) storage {
	tb.Helper()
	s := storage{Kind: k, URL: url, Space: "replicas_" + strings.ToLower(rand.Text()), Effects: filepath.Join(tb.TempDir(), "effects")}
	switch k {
	case sqlite:
		store, err := sqlitestore.Open(bounded(tb), url)
		must(tb, err)
		_, err = store.DB().Exec("CREATE TABLE effect (marker TEXT) STRICT")
		must(tb, errors.Join(err, store.Close()))
	case postgres, postgresLeased:
		s.migrate(tb)
	}
	return s
}

func (s storage) migrate(tb testing.TB) {
	tb.Helper()
	pool := s.pool(tb)
	must(tb, pgstore.Migrate(bounded(tb), pool, pgstore.WithSchema(s.Space)))
	_, err := pool.Exec(bounded(tb), "CREATE TABLE "+s.table("effect")+" (marker text)")
	must(tb, err)
}

// pool is for looks from outside of any replica.
func (s storage) pool(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	pool, err := pgxpool.New(bounded(tb), s.URL)
	must(tb, err)
	tb.Cleanup(pool.Close)
	return pool
}

func (s storage) table(name string) string {
	if s.Kind == sqlite {
		return name
	}
	return pgx.Identifier{s.Space, name}.Sanitize()
}

// open opens a store of one replica.
func (s storage) open(ctx context.Context) (dedup.Store, func() error, error) {
	switch s.Kind {
	case sqlite:
		return opened(sqlitestore.Open(ctx, s.URL))
	case postgres:
		return opened(pgstore.Open(ctx, s.URL, pgstore.WithSchema(s.Space)))
	case redis:
		return opened(redisstore.Open(ctx, s.URL, redisstore.WithPrefix(s.Space+":")))
	}
	pool, err := pgxpool.New(ctx, s.URL)
	if err != nil {
		return nil, nil, err
	}
	store, closeStore, err := s.onPool(pool)
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	return store, func() error {
		defer pool.Close()
		return closeStore()
	}, nil
}

func opened[S interface {
	dedup.Store
	Close() error
}](store S, err error) (dedup.Store, func() error, error) {
	return store, store.Close, err
}

// effect takes effect as a handler does, and shows who it was.
func (s storage) effect(ctx context.Context, op dedup.Operation, who string) error {
	marker := op.Key.ID + " " + who
	if s.Kind.transactional() {
		return s.write(ctx, marker)
	}
	file, err := os.OpenFile(s.Effects, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(file, marker)
	return errors.Join(err, file.Close())
}

// wantEffects fails the test where the operation's effects, in their order, are
// not those of these.
func (s storage) wantEffects(tb testing.TB, op dedup.Operation, want ...string) {
	tb.Helper()
	markers, err := s.effects(bounded(tb))
	must(tb, err)
	var got []string
	for _, marker := range markers {
		if id, who, _ := strings.Cut(marker, " "); id == op.Key.ID {
			got = append(got, who)
		}
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		tb.Errorf("effects of %q, want %q", got, want)
	}
}

// effects returns what has taken effect and lasts.
func (s storage) effects(ctx context.Context) ([]string, error) {
	switch s.Kind {
	case sqlite:
		return s.sqliteEffects(ctx)
	case postgres:
		conn, err := pgx.Connect(ctx, s.URL)
		if err != nil {
			return nil, err
		}
		defer conn.Close(ctx)
		rows, err := conn.Query(ctx, "SELECT marker FROM "+s.table("effect"))
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, pgx.RowTo[string])
	}
	text, err := os.ReadFile(s.Effects)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' }), err
}

func (s storage) sqliteEffects(ctx context.Context) (markers []string, err error) {
	store, err := sqlitestore.Open(ctx, s.URL)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	rows, err := store.DB().QueryContext(ctx, "SELECT marker FROM effect ORDER BY rowid")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var marker string
		if err := rows.Scan(&marker); err != nil {
			return nil, err
		}
		markers = append(markers, marker)
	}
	return markers, rows.Err()
}
