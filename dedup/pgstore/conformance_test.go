package pgstore_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/pgstore"
	"github.com/retrysafe/retrysafe/dedup/storetest"
)

func TestStoreConforms(t *testing.T) {
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()         // most of the time goes into waiting for retentions to end
			db := newDatabase(t) // for all cases: each has operations of its own
			storetest.Run(t, func(tb testing.TB) storetest.Storage {
				return db.transactional(tb, pgstore.WithIsolation(level))
			})
		})
	}
}

func TestStoreWithPartitionsConforms(t *testing.T) {
	t.Parallel()
	db := newPartitioned(t)
	storetest.Run(t, func(tb testing.TB) storetest.Storage { return db.transactional(tb, partitioned) })
}

func TestLeasedConforms(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	storetest.Run(t, db.leasedStorage)
}

// of is the database in the hands of a part of the test that made it.
func (db *database) of(tb testing.TB) *database {
	part := *db
	part.TB = tb
	return &part
}

func (db *database) transactional(tb testing.TB, opts ...pgstore.Option) storetest.Storage {
	db = db.of(tb)
	open := func() (dedup.Store, string) {
		application := "retrysafe " + unique()
		// As many as the suite's crowd may hold at once.
		pool := db.pool(named(application), func(c *pgxpool.Config) { c.MaxConns = 20 })
		return db.store(pool, opts...), application
	}
	first, firstName := open()
	second, secondName := open()
	return storetest.Storage{
		First:            first,
		Second:           second,
		ConcurrentClaims: true,
		Effects:          db.effects(),
		Restart: func(tb testing.TB) (dedup.Store, dedup.Store) {
			db.kill(firstName)
			db.kill(secondName)
			first, firstName = open()
			second, secondName = open()
			return first, second
		},
	}
}

func (db *database) effects() *storetest.Effects {
	return &storetest.Effects{
		Write: db.write,
		Written: func(ctx context.Context) ([]string, error) {
			rows, err := db.admin.Query(ctx, "SELECT marker FROM "+db.name("effects"))
			if err != nil {
				return nil, err
			}
			return pgx.CollectRows(rows, pgx.RowTo[string])
		},
		Fail: func(ctx context.Context) error {
			tx, err := pgstore.Tx(ctx)
			if err != nil {
				return err
			}
			_, err = tx.Exec(ctx, "SELECT 1/0")
			return err
		},
	}
}

func (db *database) leasedStorage(tb testing.TB) storetest.Storage {
	db = db.of(tb)
	open := func() dedup.Store { return db.leased(db.pool()) }
	return storetest.Storage{
		First:   open(),
		Second:  open(),
		Restart: func(testing.TB) (dedup.Store, dedup.Store) { return open(), open() },
	}
}
