package pgstore

import (
	"context"
	"encoding/hex"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/retrysafe/retrysafe/dedup"
)

// lease is a claim of a leased store. What the database says decides.
type lease struct {
	store     *Leased
	id        identity
	owner     dedup.Owner
	retention time.Duration
	fence     int64
	attempt   int
	released  atomic.Bool // a repeated Release is answered from here
}

// Fence implements [dedup.Claim].
func (c *lease) Fence() uint64 { return uint64(c.fence) }

// Attempt implements [dedup.Claim].
func (c *lease) Attempt() int { return c.attempt }

// Context implements [dedup.Claim]. The store has nothing for the handler.
func (c *lease) Context(ctx context.Context) context.Context { return ctx }

// errUndo: there are no writes of the handler's in here.
var errUndo = errors.New("pgstore: complete: a leased store cannot undo what a handler did")

// Complete implements [dedup.Claim]. It refuses to undo.
func (c *lease) Complete(ctx context.Context, completion dedup.Completion) error {
	if completion.Undo {
		return errUndo
	}
	if err := checkCompletion(completion); err != nil {
		return err
	}
	return c.settle(ctx, "complete", c.store.sql.complete,
		notNull(completion.Record), completion.Retention.Microseconds())
}

// Release implements [dedup.Claim].
func (c *lease) Release(ctx context.Context) error {
	if c.released.Load() {
		return nil
	}
	err := c.settle(ctx, "release", c.store.sql.release)
	if err == nil {
		c.released.Store(true)
	}
	return err
}

func (c *lease) settle(ctx context.Context, doing, sql string, more ...any) error {
	var settled bool
	args := append([]any{c.id.scope, c.id.method, c.id.id, c.owner[:], c.fence, c.id.name()}, more...)
	err := readCommitted(ctx, c.store.pool, func(b *pgx.Batch) {
		b.Queue(sql, args...).QueryRow(func(row pgx.Row) error { return row.Scan(&settled, nil) })
	})
	if err != nil {
		return explain(doing, err)
	}
	if !settled {
		return dedup.ErrLeaseLost
	}
	return nil
}

// Renew implements [dedup.Claim].
func (c *lease) Renew(ctx context.Context, d time.Duration) error {
	if err := checkDuration("lease", d); err != nil {
		return err
	}
	var renewed bool
	err := readCommitted(ctx, c.store.pool, func(b *pgx.Batch) {
		b.Queue(c.store.sql.renew, c.id.scope, c.id.method, c.id.id, c.owner[:], c.fence,
			d.Microseconds(), c.retention.Microseconds()).Exec(func(tag pgconn.CommandTag) error {
			renewed = tag.RowsAffected() == 1
			return nil
		})
	})
	if err != nil {
		return explain("renew", err)
	}
	if !renewed {
		return dedup.ErrLeaseLost
	}
	return nil
}

// name is what the operation is called on the channel: a digest, because
// anyone who may connect to the database may listen.
func (i identity) name() string {
	sum := i.digest()
	return hex.EncodeToString(sum[:16])
}

// microseconds is the duration of so many, where it can be told.
func microseconds(n int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Microsecond)
	return time.Duration(min(max(n, 0), most)) * time.Microsecond
}
