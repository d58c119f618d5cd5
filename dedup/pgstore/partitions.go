package pgstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// partitionLockTimeout bounds how long a transaction that changes partitions
	// waits for a lock. An autovacuum that is in the way yields within a second.
	partitionLockTimeout = "3s"
	// retireTimeout bounds how long the removal of one partition waits for the
	// transactions that may use it.
	retireTimeout = 10 * time.Second
	// partitionRetry is how long claims rely on the partitions that are there
	// after others could not be made.
	partitionRetry = 5 * time.Second
)

// partitions makes the partitions of the table of outcomes before their time,
// and drops them when all in them has expired. Many processes may do so at
// once. Nothing in here takes a lock that a claim would have to wait for:
// partitions are attached and, concurrently, detached, both under SHARE UPDATE
// EXCLUSIVE. A default partition would rule both out.
type partitions struct {
	pool   *pgxpool.Pool
	table  string // the partitioned one
	period time.Duration

	turn chan struct{} // full while a claim makes partitions

	mu    sync.Mutex
	fresh time.Time // until then nobody needs to look
	until time.Time // when the last of the partitions ends
}

// newPartitions returns nil where the store has none.
func newPartitions(pool *pgxpool.Pool, c *config) *partitions {
	if !c.partitioned() {
		return nil
	}
	return &partitions{pool: pool, table: outcomes(*c).table(), period: c.partitions, turn: make(chan struct{}, 1)}
}

// ready makes partitions where those that are there may not outlast a claim.
func (p *partitions) ready(ctx context.Context) error {
	if p == nil || p.isFresh() {
		return nil
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if p.isFresh() {
		return nil
	}
	if err := p.makeAhead(ctx); err != nil && !p.putOff() {
		return err
	}
	return nil
}

func (p *partitions) isFresh() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Before(p.fresh)
}

// putOff says whether there are partitions for some time, and lets claims use
// them.
func (p *partitions) putOff() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.fresh = now.Add(partitionRetry)
	if p.until.Before(p.fresh) {
		p.fresh = p.until
	}
	return now.Before(p.fresh)
}

// know takes in that at a moment there were partitions for so long.
func (p *partitions) know(moment time.Time, covered time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = moment.Add(covered)
	p.fresh = p.until.Add(-p.period)
}

// distrust has the next claim look.
func (p *partitions) distrust() { p.know(time.Time{}, 0) }

// makeAhead makes the partitions of the present and the next two periods.
func (p *partitions) makeAhead(ctx context.Context) error {
	period := int64(p.period / time.Second)
	asked := time.Now()
	l, err := readLayout(ctx, p.pool, p.table)
	if err != nil {
		return explainPartitions(err)
	}
	missing, until := l.missing(period)
	if len(missing) > 0 {
		err = p.change(ctx, func(tx pgx.Tx) error {
			// Before the look, which then sees what the lock's last holder made.
			// Who waits for it is in nobody's way and may wait longer.
			lock := fmt.Sprintf("SET LOCAL lock_timeout = 0; SELECT pg_advisory_xact_lock(%d # %s::regclass::oid::bigint); "+
				"SET LOCAL lock_timeout = '%s'", migrationLock, literal(p.table), partitionLockTimeout)
			if _, err := tx.Exec(ctx, lock); err != nil {
				return err
			}
			asked = time.Now()
			if l, err = readLayout(ctx, tx, p.table); err != nil {
				return err
			}
			missing, until = l.missing(period)
			for _, s := range missing {
				if err := p.create(ctx, tx, l.schema, s); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		return explainPartitions(err)
	}
	p.know(asked, time.Duration(until-l.now)*time.Second)
	return nil
}

func (p *partitions) create(ctx context.Context, tx pgx.Tx, schema string, s span) error {
	if _, err := tx.Exec(ctx, "CREATE TABLE "+qualified(schema, s)+" (LIKE "+p.table+")"); err != nil {
		return err
	}
	return p.attach(ctx, tx, schema, s)
}

func (p *partitions) attach(ctx context.Context, tx pgx.Tx, schema string, s span) error {
	_, err := tx.Exec(ctx, fmt.Sprintf("ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (to_timestamp(%d)) TO (to_timestamp(%d))",
		p.table, qualified(schema, s), s.start, s.end))
	return err
}

// maintain makes partitions and drops partitions.
func (p *partitions) maintain(ctx context.Context) error {
	makeCtx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	err := p.makeAhead(makeCtx)
	l, lookErr := readLayout(makeCtx, p.pool, p.table)
	if lookErr != nil {
		return errors.Join(err, lookErr)
	}
	for _, part := range l.partitions {
		// A whole period more, for an INSERT that took its time just before the
		// partition's end and has not reached it.
		if part.end+int64(p.period/time.Second) <= l.now {
			err = errors.Join(err, p.retire(ctx, l.schema, part))
		}
	}
	return err
}

// retire drops a partition whose time is over and in which all has expired.
func (p *partitions) retire(ctx context.Context, schema string, part partition) error {
	ctx, cancel := context.WithTimeout(ctx, retireTimeout)
	defer cancel()
	detached, err := p.detach(ctx, schema, part)
	if err == nil && detached {
		err = p.drop(ctx, schema, part.span)
	}
	switch codeOf(err) {
	case codeUndefinedTable, codeDeadlock:
		return nil // another was at it
	}
	if err != nil {
		return fmt.Errorf("drop partition %s: %w", part.name(), err)
	}
	return nil
}

// detach waits for transactions that may use the partition, and nobody waits
// for it. Where it gives up the partition stays pending, with no rows to be
// seen, and another call takes it on. DETACH wants no transaction around it, so
// that its time is limited by ctx.
func (p *partitions) detach(ctx context.Context, schema string, part partition) (detached bool, err error) {
	how := "CONCURRENTLY"
	switch {
	case !part.attached:
		return true, nil
	case part.pending:
		how = "FINALIZE"
	default:
		if expired, err := p.expired(ctx, schema, part.span); err != nil || !expired {
			return false, err
		}
	}
	_, err = p.pool.Exec(ctx, "ALTER TABLE "+p.table+" DETACH PARTITION "+qualified(schema, part.span)+" "+how)
	return err == nil, err
}

// expired says whether all in a partition has expired, rows included that were
// not committed when it was called: their writers hold a lock against SHARE.
// Claims that look do not.
func (p *partitions) expired(ctx context.Context, schema string, s span) (expired bool, err error) {
	if expired, err = allExpired(ctx, p.pool, schema, s); err != nil || !expired {
		return false, err
	}
	err = p.change(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "LOCK TABLE "+qualified(schema, s)+" IN SHARE MODE"); err != nil {
			return err
		}
		expired, err = allExpired(ctx, tx, schema, s)
		return err
	})
	return expired, err
}

// drop drops a table that was a partition. One with what has not expired, which
// somebody else must have detached, becomes a partition again.
func (p *partitions) drop(ctx context.Context, schema string, s span) error {
	return p.change(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "LOCK TABLE "+qualified(schema, s)+" IN ACCESS EXCLUSIVE MODE"); err != nil {
			return err
		}
		expired, err := allExpired(ctx, tx, schema, s)
		if err != nil {
			return err
		}
		if !expired {
			return p.attach(ctx, tx, schema, s)
		}
		_, err = tx.Exec(ctx, "DROP TABLE "+qualified(schema, s))
		return err
	})
}

// change runs f in a transaction that does not wait long for locks. READ
// COMMITTED lets each statement see what others have committed.
func (p *partitions) change(ctx context.Context, f func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, p.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '"+partitionLockTimeout+"'"); err != nil {
			return err
		}
		return f(tx)
	})
}

func allExpired(ctx context.Context, q querier, schema string, s span) (all bool, err error) {
	err = q.QueryRow(ctx, "SELECT NOT EXISTS (SELECT FROM "+qualified(schema, s)+" WHERE expires_at > statement_timestamp())").Scan(&all)
	return all, err
}

func qualified(schema string, s span) string { return pgx.Identifier{schema, s.name()}.Sanitize() }

func explainPartitions(err error) error {
	if codeOf(err) == codeUndefinedTable {
		return fmt.Errorf("the table of WithPartitions is not there; run Migrate with that option: %w", err)
	}
	return fmt.Errorf("make partitions: %w", err)
}
