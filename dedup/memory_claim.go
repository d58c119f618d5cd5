package dedup

import (
	"context"
	"errors"
	"time"
)

// memoryClaim is a claim on an entry. A shard gives no fence twice, so that
// the fence alone says whether the slot still holds what was claimed, and by
// whom.
type memoryClaim struct {
	shard   *memoryShard
	fence   uint64
	slot    slot
	attempt int
}

var _ Claim = (*memoryClaim)(nil)

// errMemoryUndo: nothing that a handler has done can be undone here.
var errMemoryUndo = errors.New("dedup: memory: a store that promises one at a time cannot undo")

func (c *memoryClaim) Fence() uint64 { return c.fence }

func (c *memoryClaim) Attempt() int { return c.attempt }

func (c *memoryClaim) Context(ctx context.Context) context.Context { return ctx }

func (c *memoryClaim) Complete(ctx context.Context, done Completion) error {
	if done.Undo {
		return errMemoryUndo
	}
	if err := memoryDuration("retention", done.Retention); err != nil {
		return err
	}
	return c.settle(ctx, func(s *memoryShard, e *memoryEntry, now int64) error {
		if e.state == memoryCompleted {
			return nil
		}
		if e.state != memoryClaimed {
			return ErrLeaseLost
		}
		if int64(len(done.Record)) > s.store.settings.maxBytes {
			return ErrTooLarge
		}
		if !s.store.reserve(s, 0, len(done.Record), now) {
			return ErrFull
		}
		e.setRecord(done.Record)
		e.state = memoryCompleted
		e.expires = later(now, done.Retention)
		s.moved(c.slot)
		s.wake(e.hash)
		return nil
	})
}

func (c *memoryClaim) Renew(ctx context.Context, lease time.Duration) error {
	if err := memoryDuration("lease", lease); err != nil {
		return err
	}
	return c.settle(ctx, func(s *memoryShard, e *memoryEntry, now int64) error {
		if e.state != memoryClaimed {
			return ErrLeaseLost
		}
		retention := e.retention()
		e.leaseEnd = later(now, lease)
		e.expires = later(e.leaseEnd, retention)
		s.moved(c.slot)
		return nil
	})
}

func (c *memoryClaim) Release(ctx context.Context) error {
	return c.settle(ctx, func(s *memoryShard, e *memoryEntry, now int64) error {
		if e.state == memoryReleased {
			return nil
		}
		if e.state != memoryClaimed {
			return ErrLeaseLost
		}
		e.state = memoryReleased
		e.expires = later(now, min(e.retention(), releasedRetention))
		s.moved(c.slot)
		s.wake(e.hash)
		return nil
	})
}

// settle calls change with the claim's entry, locked.
func (c *memoryClaim) settle(ctx context.Context, change func(*memoryShard, *memoryEntry, int64) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s := c.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.store.now()
	e := s.at(c.slot)
	if e.fence != c.fence || e.expires <= now {
		return ErrLeaseLost
	}
	return change(s, e, now)
}
