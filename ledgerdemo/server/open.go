package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/pgstore"
	"github.com/retrysafe/retrysafe/dedup/redisstore"
	"github.com/retrysafe/retrysafe/dedup/sqlitestore"
	"github.com/retrysafe/retrysafe/ledgerdemo/database"
	"github.com/retrysafe/retrysafe/ledgerdemo/ledger"
)

// kept is what outlives the server: the ledger, and the outcomes.
type kept struct {
	store  dedup.Store
	ledger ledger.Storage
	close  func() error
}

func open(ctx context.Context, c Config) (*kept, error) {
	if c.Store.Kind != database.Redis && !c.Ledger.IsZero() {
		return nil, fmt.Errorf("the ledger is in the store where that is %v, and has no place of its own", c.Store.Kind)
	}
	at, opener := c.Store, openSQLite
	switch at.Kind {
	case database.SQLite:
	case database.PostgreSQL:
		opener = openPostgres
	case database.Redis:
		opener = openRedis
	default:
		return nil, errors.New("the store is nowhere")
	}
	k, err := opener(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("open %v: %w", at, err)
	}
	return k, nil
}

func openSQLite(ctx context.Context, c Config) (*kept, error) {
	store, err := sqlitestore.Open(ctx, c.Store.Address, sqlitestore.WithLogger(c.Logger))
	if err != nil {
		return nil, err
	}
	storage, err := ledger.NewSQLite(ctx, store.DB())
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return &kept{store, storage, store.Close}, nil
}

func openPostgres(ctx context.Context, c Config) (*kept, error) {
	store, err := pgstore.Open(ctx, c.Store.Address, pgstore.WithLogger(c.Logger))
	if err != nil {
		return nil, err
	}
	storage, err := ledger.NewPostgres(ctx, store.Pool())
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return &kept{store, storage, store.Close}, nil
}

// openRedis opens the outcomes in Redis and the ledger elsewhere, which then
// knows nothing of keys.
func openRedis(ctx context.Context, c Config) (*kept, error) {
	opts := []redisstore.Option{redisstore.WithLogger(c.Logger)}
	if c.Prefix != "" {
		opts = append(opts, redisstore.WithPrefix(c.Prefix))
	}
	store, err := redisstore.Open(ctx, c.Store.Address, opts...)
	if err != nil {
		return nil, err
	}
	storage, closeLedger, err := openLedger(ctx, c.Ledger)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the ledger: %w", err), store.Close())
	}
	closeBoth := func() error { return errors.Join(store.Close(), closeLedger()) }
	return &kept{watch(store, c.OnUnknown), storage, closeBoth}, nil
}

func openLedger(ctx context.Context, at database.URL) (ledger.Storage, func() error, error) {
	switch at.Kind {
	case database.SQLite:
		db, err := ledger.OpenSQLite(ctx, at.Address)
		if err != nil {
			return nil, nil, err
		}
		storage, err := ledger.NewSQLite(ctx, db)
		if err != nil {
			return nil, nil, errors.Join(err, db.Close())
		}
		return storage, db.Close, nil
	case database.PostgreSQL:
		pool, err := pgxpool.New(ctx, at.Address)
		if err != nil {
			return nil, nil, err
		}
		storage, err := ledger.NewPostgres(ctx, pool)
		if err != nil {
			pool.Close()
			return nil, nil, err
		}
		return storage, func() error { pool.Close(); return nil }, nil
	}
	return nil, nil, errors.New("it is neither in SQLite nor in PostgreSQL")
}
