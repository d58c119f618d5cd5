package pgstore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/retrysafe/retrysafe/dedup"
)

// Store is a [dedup.Store] whose claims are transactions. It promises
// [dedup.ExactlyOnce] and is safe for concurrent use, by many processes on one
// database.
//
// A claim holds a connection of the pool until it is settled. Leases do not
// end it, and Renew does nothing. Attempt is always 1.
type Store struct {
	pool    *pgxpool.Pool
	owned   bool // the pool is closed with the store
	config  config
	table   string
	sql     statements
	waiting *waiting
	recent  *recent
	// unprepared says that the pool prepares no statements, because it is
	// behind a pooler that would lose them.
	unprepared bool
	partitions *partitions // nil without WithPartitions
	sweeper    *sweeper
	closing    sync.Once
}

var _ dedup.Store = (*Store)(nil)

// New returns a store in pool's database, where [Migrate] has been run. Close
// leaves the pool open and is to be called before the pool's.
func New(pool *pgxpool.Pool, opts ...Option) (*Store, error) {
	c, err := newConfig(opts)
	if pool == nil {
		err = errors.Join(errors.New("pgstore: New: the pool is nil"), err)
	}
	if err != nil {
		return nil, err
	}
	parts := newPartitions(pool, &c)
	sweep := newDeleter(pool, &c, outcomesTable).sweep
	if parts != nil {
		sweep = parts.maintain
	}
	return &Store{
		pool:       pool,
		config:     c,
		table:      outcomes(c).table(),
		sql:        newStatements(&c),
		waiting:    newWaiting(pool),
		recent:     newRecent(),
		partitions: parts,
		unprepared: pool.Config().ConnConfig.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement,
		sweeper:    startSweeper(&c, sweep),
	}, nil
}

// Open makes a pool of connections by url, which may be a URL or a string of
// key=value pairs as pgxpool reads them, brings the tables up to date as
// [Migrate] does, and returns a store that closes the pool with itself.
func Open(ctx context.Context, url string, opts ...Option) (*Store, error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("pgstore: open: %w", err)
	}
	if err := Migrate(ctx, pool, opts...); err != nil {
		pool.Close()
		return nil, err
	}
	s, err := New(pool, opts...)
	if err != nil {
		pool.Close()
		return nil, err
	}
	s.owned = true
	return s, nil
}

// Pool returns the store's pool, for reads and for writes outside of handlers.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// Promise returns [dedup.ExactlyOnce].
func (s *Store) Promise() dedup.Promise { return dedup.ExactlyOnce }

// Close stops the store's sweeping and, after [Open], closes the pool, which
// waits for claims to be settled. It always returns nil.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.sweeper.close()
		if s.owned {
			s.pool.Close()
		}
	})
	return nil
}
