package dedup

import (
	"context"
	"fmt"
	"hash/maphash"
	"math/bits"
	"sync/atomic"
	"time"
)

// Memory is a [Store] in the memory of one process. It promises [OneAtATime],
// wakes those who wait, and forgets everything when the process ends.
//
// It is bounded. When it is full it refuses new operations with [ErrFull]; it
// never drops one that is in progress or whose retention has not ended. What
// has expired goes as new operations come, a few at each claim, so that no
// goroutine runs and no claim waits for a sweep.
type Memory struct {
	settings memorySettings
	seed     maphash.Seed
	start    time.Time
	keys     atomic.Int64
	bytes    atomic.Int64
	shards   [memoryShards]memoryShard
}

var (
	_ Store  = (*Memory)(nil)
	_ Waiter = (*Memory)(nil)
)

const (
	memoryShards    = 64
	memoryShardBits = 6

	// releasedRetention is how long a released claim counts as an attempt. It has
	// nothing else to remember.
	releasedRetention = time.Minute

	// memorySweep is how many expired operations a claim removes: more than
	// the one that it may add.
	memorySweep = 2

	// memoryFullSweep is how many each shard removes at a time where there is
	// no room left.
	memoryFullSweep = 16
)

// NewMemory returns an empty store.
func NewMemory(opts ...MemoryOption) *Memory {
	m := &Memory{seed: maphash.MakeSeed(), start: time.Now()}
	for _, opt := range opts {
		if opt != nil {
			opt(&m.settings)
		}
	}
	m.settings.setDefaults()
	for i := range m.shards {
		m.shards[i].store = m
		m.shards[i].index = make(map[uint32]slot)
		// Fences rise even where the process, or the operation, was forgotten
		// in between.
		m.shards[i].fence = uint64(m.start.UnixMicro())
		m.shards[i].earliest.Store(never)
	}
	return m
}

// Promise returns [OneAtATime].
func (m *Memory) Promise() Promise { return OneAtATime }

// Len returns how many operations are remembered, those that have expired but
// are not yet removed included.
func (m *Memory) Len() int { return int(m.keys.Load()) }

// Claim implements [Store]. It never waits.
func (m *Memory) Claim(ctx context.Context, req ClaimRequest) (Answer, error) {
	if err := ctx.Err(); err != nil {
		return Answer{}, err
	}
	if err := memoryDuration("lease", req.Lease); err != nil {
		return Answer{}, err
	}
	if err := memoryDuration("retention", req.Retention); err != nil {
		return Answer{}, err
	}
	hash := m.hash(req.Key)
	s := m.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := m.now()
	s.sweep(now, memorySweep)
	return s.claim(hash, &req, now)
}

// Wait implements [Waiter].
func (m *Memory) Wait(ctx context.Context, key Key) error {
	hash := m.hash(key)
	s := m.shard(hash)
	for {
		settled, leaseLeft := s.watch(hash, key)
		if settled == nil {
			return nil
		}
		woken, err := awaitSettlement(ctx, settled.done, leaseLeft)
		s.unwatch(hash, settled)
		if woken || err != nil {
			return err
		}
	}
}

// awaitSettlement returns true where done was closed, and false where only the
// lease, as it was, has ended.
func awaitSettlement(ctx context.Context, done <-chan struct{}, lease time.Duration) (bool, error) {
	timer := time.NewTimer(lease)
	defer timer.Stop()
	select {
	case <-done:
		return true, nil
	case <-timer.C:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// now is the store's clock: monotonic nanoseconds since it was made.
func (m *Memory) now() int64 { return int64(time.Since(m.start)) }

// hash is seeded, so that no client can choose keys that collide.
func (m *Memory) hash(key Key) uint64 {
	return maphash.String(m.seed, key.ID) ^
		bits.RotateLeft64(maphash.String(m.seed, key.Method), 21) ^
		bits.RotateLeft64(maphash.String(m.seed, key.Scope), 42)
}

func (m *Memory) shard(hash uint64) *memoryShard {
	return &m.shards[hash>>(64-memoryShardBits)]
}

// reserve takes room for a key or for bytes, or says that there is none. Where
// room is short it looks for it in all shards. The caller holds the lock of its
// own; a shard that is busy is passed over, so that none waits for another.
func (m *Memory) reserve(own *memoryShard, keys, bytes int, now int64) bool {
	for !m.take(keys, bytes) {
		swept := own.sweep(now, memoryFullSweep)
		for i := range m.shards {
			s := &m.shards[i]
			if s == own || s.earliest.Load() > now || !s.mu.TryLock() {
				continue
			}
			swept += s.sweep(now, memoryFullSweep)
			s.mu.Unlock()
		}
		if swept == 0 {
			return false
		}
	}
	return true
}

func (m *Memory) take(keys, bytes int) bool {
	k, b := m.keys.Add(int64(keys)), m.bytes.Add(int64(bytes))
	if k <= int64(m.settings.maxKeys) && b <= m.settings.maxBytes {
		return true
	}
	m.free(keys, bytes)
	return false
}

func (m *Memory) free(keys, bytes int) {
	m.keys.Add(int64(-keys))
	m.bytes.Add(int64(-bytes))
}

func memoryDuration(name string, d time.Duration) error {
	if d < time.Millisecond {
		return fmt.Errorf("dedup: memory: %s: %v is less than 1ms", name, d)
	}
	return nil
}
