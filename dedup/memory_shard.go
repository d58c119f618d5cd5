package dedup

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// memoryShard is one part of a [Memory]. The index and the order hold no
// pointers and the entries one each, so that a million operations cost the
// garbage collector little.
type memoryShard struct {
	store *Memory

	mu      sync.Mutex
	index   map[uint32]slot // by place: the first of its chain
	entries memoryEntries
	order   expiryOrder
	waits   map[uint64]*settlement // by hash
	fence   uint64                 // the last one given

	// earliest is when the first entry expires, for those who look without
	// the lock.
	earliest atomic.Int64

	_ [64]byte // no two shards' locks in one cache line
}

// never is a time that does not come.
const never = math.MaxInt64

// settlement wakes those who wait for a claim of one hash.
type settlement struct {
	done    chan struct{}
	waiters int
}

// claim judges a request. The caller holds the lock.
func (s *memoryShard) claim(hash uint64, req *ClaimRequest, now int64) (Answer, error) {
	n := s.find(hash, req.Key)
	if n != noSlot && s.at(n).expires <= now {
		s.remove(n)
		n = noSlot
	}
	if n == noSlot {
		return s.first(hash, req, now)
	}
	e := s.at(n)
	switch {
	case e.state == memoryReleased:
		return s.again(n, req, now), nil
	case e.fingerprint != req.Fingerprint:
		return Answer{State: Reused, Fingerprint: e.fingerprint}, nil
	case e.state == memoryCompleted:
		return Answer{State: Completed, Record: e.record()}, nil
	case e.leaseEnd > now && e.owner == req.Owner:
		return s.claimed(n), nil
	case e.leaseEnd > now:
		return Answer{State: InProgress, LeaseLeft: time.Duration(e.leaseEnd - now)}, nil
	case !req.Takeover:
		return Answer{State: Unknown}, nil
	}
	return s.again(n, req, now), nil
}

// first claims an operation that is not remembered.
func (s *memoryShard) first(hash uint64, req *ClaimRequest, now int64) (Answer, error) {
	size := keySize(req.Key)
	if size > math.MaxInt32 || !s.store.reserve(s, 1, size, now) {
		return Answer{}, ErrFull
	}
	n := s.entries.add()
	e := s.at(n)
	e.hash, e.next = hash, s.index[place(hash)]
	s.index[place(hash)] = n
	e.setKey(req.Key)
	s.own(e, req, now)
	s.order.push(&s.entries, n)
	s.ordered()
	return s.claimed(n), nil
}

// again claims an operation that is remembered.
func (s *memoryShard) again(n slot, req *ClaimRequest, now int64) Answer {
	s.own(s.at(n), req, now)
	s.moved(n)
	return s.claimed(n)
}

func (s *memoryShard) own(e *memoryEntry, req *ClaimRequest, now int64) {
	s.fence++
	e.state = memoryClaimed
	e.fence = s.fence
	e.attempt = min(e.attempt, math.MaxUint16-1) + 1
	e.owner = req.Owner
	e.fingerprint = req.Fingerprint
	e.leaseEnd = later(now, req.Lease)
	e.expires = later(e.leaseEnd, req.Retention)
}

func (s *memoryShard) claimed(n slot) Answer {
	e := s.at(n)
	return Answer{State: Claimed, Claim: &memoryClaim{shard: s, slot: n, fence: e.fence, attempt: int(e.attempt)}}
}

// watch returns nil where nobody holds a live claim on key, else what will wake
// those who wait for it, and how long its lease is still.
func (s *memoryShard) watch(hash uint64, key Key) (*settlement, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.find(hash, key)
	if n == noSlot {
		return nil, 0
	}
	e := s.at(n)
	left := e.leaseEnd - s.store.now()
	if e.state != memoryClaimed || left <= 0 {
		return nil, 0
	}
	w := s.waits[hash]
	if w == nil {
		if s.waits == nil {
			s.waits = make(map[uint64]*settlement)
		}
		w = &settlement{done: make(chan struct{})}
		s.waits[hash] = w
	}
	w.waiters++
	return w, time.Duration(left)
}

func (s *memoryShard) unwatch(hash uint64, w *settlement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.waiters--
	if w.waiters == 0 && s.waits[hash] == w {
		delete(s.waits, hash)
	}
}

// wake wakes those who wait. The caller holds the lock.
func (s *memoryShard) wake(hash uint64) {
	if w := s.waits[hash]; w != nil {
		delete(s.waits, hash)
		close(w.done)
	}
}

// sweep removes up to limit entries that have expired and returns how many it
// has. The caller holds the lock.
func (s *memoryShard) sweep(now int64, limit int) int {
	for i := range limit {
		if s.earliest.Load() > now {
			return i
		}
		s.remove(s.order.first())
	}
	return limit
}

func (s *memoryShard) at(n slot) *memoryEntry { return s.entries.at(n) }

// place is where a hash stands in the index. Half of it is enough: of a hundred
// million operations some hundred share their place with another, and half the
// bytes are found in half the time.
func place(hash uint64) uint32 { return uint32(hash) }

// find returns the entry of key, expired or not.
func (s *memoryShard) find(hash uint64, key Key) slot {
	for n := s.index[place(hash)]; n != noSlot; n = s.at(n).next {
		if s.at(n).is(key) {
			return n
		}
	}
	return noSlot
}

func (s *memoryShard) remove(n slot) {
	e := s.at(n)
	s.unlink(n, e)
	s.order.remove(&s.entries, n)
	s.ordered()
	s.store.free(1, len(e.block))
	s.entries.free(n)
}

func (s *memoryShard) unlink(n slot, e *memoryEntry) {
	first := s.index[place(e.hash)]
	switch {
	case first != n:
		before := first
		for s.at(before).next != n {
			before = s.at(before).next
		}
		s.at(before).next = e.next
	case e.next != noSlot:
		s.index[place(e.hash)] = e.next
	default:
		delete(s.index, place(e.hash))
	}
}

// moved puts an entry whose expiry has changed into its place.
func (s *memoryShard) moved(n slot) {
	s.order.fix(&s.entries, n)
	s.ordered()
}

func (s *memoryShard) ordered() {
	earliest := int64(never)
	if n := s.order.first(); n != noSlot {
		earliest = s.at(n).expires
	}
	s.earliest.Store(earliest)
}

// later returns the time that is d after t, or never.
func later(t int64, d time.Duration) int64 {
	if t > never-int64(d) {
		return never
	}
	return t + int64(d)
}
