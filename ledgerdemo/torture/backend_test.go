package torture

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/ncruces/go-sqlite3/driver"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/pgstore"
	"github.com/retrysafe/retrysafe/dedup/redisstore"
	"github.com/retrysafe/retrysafe/dedup/sqlitestore"
	"github.com/retrysafe/retrysafe/ledgerdemo/ledger"
)

// kind is a store, and where the ledger is.
type kind string

const (
	// onSQLite: store and ledger in one file, exactly once.
	onSQLite kind = "sqlite"
	// onPostgres: store and ledger in one database, exactly once.
	onPostgres kind = "postgres"
	// leasedPostgres: a store with leases; the ledger's transactions are its
	// own.
	leasedPostgres kind = "postgres leased"
	// leasedRedis: a store with leases; the ledger is an SQLite file.
	leasedRedis kind = "redis"
)

func (k kind) transactional() bool { return k == onSQLite || k == onPostgres }

// open opens a server's store and its ledger. They end with the process.
func open(ctx context.Context, c config, logger *slog.Logger) (dedup.Store, ledger.Storage, error) {
	store, storage, err := openSound(ctx, c, logger)
	if err != nil {
		return nil, nil, fmt.Errorf("open %s: %w", c.Kind, err)
	}
	if c.Bug != noBug {
		store = withBug(store, c)
	}
	return store, storage, nil
}

func openSound(ctx context.Context, c config, logger *slog.Logger) (dedup.Store, ledger.Storage, error) {
	switch c.Kind {
	case onSQLite:
		store, err := sqlitestore.Open(ctx, c.Store, sqlitestore.WithLogger(logger))
		if err != nil {
			return nil, nil, err
		}
		if c.Ledger != "" {
			storage, err := openFile(ctx, c.Ledger)
			return store, storage, err
		}
		storage, err := ledger.NewSQLite(ctx, store.DB())
		return store, storage, err
	case onPostgres:
		pool, err := pgxpool.New(ctx, c.Store)
		if err != nil {
			return nil, nil, err
		}
		store, err := pgstore.New(pool, pgstore.WithLogger(logger))
		return store, pgLedger{pool}, err
	case leasedPostgres:
		pool, err := pgxpool.New(ctx, c.Store)
		if err != nil {
			return nil, nil, err
		}
		own, err := pgxpool.New(ctx, c.Ledger)
		if err != nil {
			return nil, nil, err
		}
		store, err := pgstore.NewLeased(pool, pgstore.WithLogger(logger))
		return store, pgLedger{own}, err
	case leasedRedis:
		store, err := redisstore.Open(ctx, c.Store, redisstore.WithLogger(logger))
		if err != nil {
			return nil, nil, err
		}
		storage, err := openFile(ctx, c.Ledger)
		return store, storage, err
	}
	return nil, nil, fmt.Errorf("no such kind")
}

// openFile opens a ledger in a file that has no store in it.
func openFile(ctx context.Context, path string) (ledger.Storage, error) {
	db, err := openDB(path)
	if err != nil {
		return nil, err
	}
	return ledger.NewSQLite(ctx, db)
}

func openDB(path string) (*sql.DB, error) {
	return driver.Open("file:" + path + "?_pragma=busy_timeout(2000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)")
}
