package replicatest

import (
	"context"
	"crypto/rand"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/pgstore"
	"github.com/retrysafe/retrysafe/dedup/sqlitestore"
	"github.com/retrysafe/retrysafe/dedup/storetest"
)

// suite makes storages of the conformance suite, on stores that open gives it.
func (s storage) suite(open func(testing.TB) (store dedup.Store, die func())) func(testing.TB) storetest.Storage {
	return func(tb testing.TB) storetest.Storage {
		first, firstDies := open(tb)
		second, secondDies := open(tb)
		st := storetest.Storage{
			First:            first,
			Second:           second,
			ConcurrentClaims: s.Kind == postgres,
			Restart: func(tb testing.TB) (dedup.Store, dedup.Store) {
				firstDies()
				secondDies()
				first, firstDies = open(tb)
				second, secondDies = open(tb)
				return first, second
			},
		}
		if s.Kind.transactional() {
			st.Effects = &storetest.Effects{Write: s.write, Written: s.effects, Fail: s.fail}
		}
		return st
	}
}

func (s storage) write(ctx context.Context, marker string) error {
	return s.exec(ctx, "INSERT INTO "+s.table("effect")+" VALUES ('"+marker+"')") // which has no quotes
}

func (s storage) fail(ctx context.Context) error { return s.exec(ctx, "SELECT * FROM missing") }

// exec executes in the transaction of a handler.
func (s storage) exec(ctx context.Context, sql string) error {
	if s.Kind == sqlite {
		tx, err := sqlitestore.Tx(ctx)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, sql)
		return err
	}
	tx, err := pgstore.Tx(ctx)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, sql)
	return err
}

// TestACacheChangesNoAnswer runs the conformance suite on stores of each kind
// with a cache in front.
func TestACacheChangesNoAnswer(t *testing.T) {
	forEach(t, all, func(t *testing.T, s storage) {
		var caches []dedup.Cache
		storetest.Run(t, s.suite(func(tb testing.TB) (dedup.Store, func()) {
			store, die := s.mortalStore(tb)
			cache, err := dedup.NewCache(store)
			must(tb, err)
			caches = append(caches, cache)
			return cache, die
		}))
		var hits uint64
		for _, cache := range caches {
			hits += cache.Stats().Hits
		}
		if hits == 0 {
			t.Error("the caches answered nothing")
		}
	})
}

// mortalStore opens a store for the suite, and returns what makes it drop its
// claims as the death of its process would. It has connections for a crowd.
func (s storage) mortalStore(tb testing.TB, configure ...func(*pgxpool.Config)) (store dedup.Store, die func()) {
	tb.Helper()
	switch s.Kind {
	case sqlite:
		store, closeStore, err := s.open(bounded(tb))
		must(tb, err)
		tb.Cleanup(func() { must(tb, closeStore()) })
		return store, func() { must(tb, closeStore()) }
	case redis:
		return s.store(tb), func() {}
	}
	c, err := pgxpool.ParseConfig(s.URL)
	must(tb, err)
	c.MaxConns = 20
	application := "replica " + rand.Text()
	c.ConnConfig.RuntimeParams["application_name"] = application
	for _, f := range configure {
		f(c)
	}
	pool, err := pgxpool.NewWithConfig(bounded(tb), c)
	must(tb, err)
	tb.Cleanup(pool.Close)
	store, closeStore, err := s.onPool(pool)
	must(tb, err)
	tb.Cleanup(func() { must(tb, closeStore()) })
	return store, func() { s.terminate(tb, application) }
}

// onPool makes a store that borrows the pool.
func (s storage) onPool(pool *pgxpool.Pool) (dedup.Store, func() error, error) {
	if s.Kind == postgres {
		return opened(pgstore.New(pool, pgstore.WithSchema(s.Space)))
	}
	return opened(pgstore.NewLeased(pool, pgstore.WithSchema(s.Space)))
}

// terminate ends the sessions of an application and waits until they are gone.
func (s storage) terminate(tb testing.TB, application string) {
	tb.Helper()
	pool := s.pool(tb)
	eventually(tb, "the sessions end", func() bool {
		var left int
		must(tb, pool.QueryRow(bounded(tb), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
 WHERE application_name = $1`, application).Scan(&left))
		return left == 0
	})
}
