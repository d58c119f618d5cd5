package pgstore

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// sweepTimeout bounds one batch.
const sweepTimeout = time.Minute

// sweeper does away with what has expired, now and then.
type sweeper struct {
	sweep    func(context.Context) error
	interval time.Duration
	logger   *slog.Logger
	cancel   context.CancelFunc
	done     sync.WaitGroup
}

func startSweeper(c *config, sweep func(context.Context) error) *sweeper {
	ctx, cancel := context.WithCancel(context.Background())
	s := &sweeper{
		sweep:    sweep,
		interval: c.sweepInterval,
		logger:   c.logger,
		cancel:   cancel,
	}
	if !c.sweepOff {
		s.done.Go(func() { s.run(ctx) })
	}
	return s
}

// close stops the sweeper and waits for it.
func (s *sweeper) close() {
	s.cancel()
	s.done.Wait()
}

// run sweeps now and then. Processes that start together do not sweep
// together.
func (s *sweeper) run(ctx context.Context) {
	for sleep(ctx, s.interval/2+rand.N(s.interval)) {
		if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
			s.logger.WarnContext(ctx, "pgstore: sweeping failed and will be tried again", "error", err)
		}
	}
}

// deleter deletes what has expired, a bounded batch in a transaction each. It
// takes only rows that nobody has locked, so it blocks no claim, and several
// processes may sweep at once.
type deleter struct {
	pool  *pgxpool.Pool
	sql   string
	batch int
}

func newDeleter(pool *pgxpool.Pool, c *config, table string) *deleter {
	name := c.name(table)
	return &deleter{
		pool: pool,
		// By their places, which are found without an index. Where somebody has
		// partitioned the table, each partition has places of the same names.
		sql: fmt.Sprintf(`WITH expired AS MATERIALIZED (SELECT tableoid, ctid FROM %s
 WHERE expires_at <= statement_timestamp() ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED)
 DELETE FROM %s WHERE ctid = ANY (ARRAY(SELECT ctid FROM expired)) AND (tableoid, ctid) IN (SELECT tableoid, ctid FROM expired)`,
			name, name),
		batch: c.sweepBatch,
	}
}

// sweep deletes all that has expired. It rests between two batches for as long
// as the last one took.
func (d *deleter) sweep(ctx context.Context) error {
	for {
		start := time.Now()
		deleted, err := d.sweepBatch(ctx)
		if err != nil || deleted < int64(d.batch) {
			return err
		}
		if !sleep(ctx, time.Since(start)) {
			return nil
		}
	}
}

func (d *deleter) sweepBatch(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	var deleted int64
	err := readCommitted(ctx, d.pool, func(b *pgx.Batch) {
		b.Queue(d.sql, d.batch).Exec(func(tag pgconn.CommandTag) error {
			deleted = tag.RowsAffected()
			return nil
		})
	})
	return deleted, err
}
