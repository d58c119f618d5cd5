package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
)

// releasedRetention is how long, at most, a released operation's attempts are
// remembered, in milliseconds. There is nothing else to remember.
const releasedRetention = int64(time.Minute / time.Millisecond)

var errUndo = errors.New("redisstore: complete: what the handler did elsewhere cannot be undone from here")

// claim is a claim in Redis. It holds no connection.
type claim struct {
	store  *Store
	names  names
	header header
}

var _ dedup.Claim = (*claim)(nil)

// Fence implements [dedup.Claim].
func (c *claim) Fence() uint64 { return c.header.fence }

// Attempt implements [dedup.Claim].
func (c *claim) Attempt() int { return int(c.header.attempt) }

// Context implements [dedup.Claim]. The store has nothing for the handler.
func (c *claim) Context(ctx context.Context) context.Context { return ctx }

// Complete implements [dedup.Claim].
func (c *claim) Complete(ctx context.Context, done dedup.Completion) error {
	if done.Undo {
		return errUndo
	}
	if err := checkDuration("retention", done.Retention); err != nil {
		return err
	}
	return c.settle(ctx, "complete", completeScript, c.header.withRecord(done.Record), millis(done.Retention))
}

// Release implements [dedup.Claim].
func (c *claim) Release(ctx context.Context) error {
	return c.settle(ctx, "release", releaseScript, c.header.text(released), min(c.header.retention, releasedRetention))
}

func (c *claim) settle(ctx context.Context, doing string, script script, value string, ttl int64) error {
	return c.change(ctx, doing, script, []string{c.names.operation, c.names.waiting},
		c.header.text(claimed), value, decimal(ttl), c.store.listener.channel, c.names.digest)
}

// Renew implements [dedup.Claim].
func (c *claim) Renew(ctx context.Context, lease time.Duration) error {
	if err := checkDuration("lease", lease); err != nil {
		return err
	}
	return c.change(ctx, "renew", renewScript, []string{c.names.operation},
		c.header.text(claimed), decimal(lifetime(lease, c.header)))
}

// change runs a script that returns 0 where the claim has been lost.
func (c *claim) change(ctx context.Context, doing string, script script, keys []string, args ...string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	done, err := c.store.run(ctx, script, keys, args...)
	if err != nil {
		return explain(doing, err)
	}
	if done == 0 {
		return dedup.ErrLeaseLost
	}
	return nil
}
