package dedup

import (
	"container/list"
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// flights are the operations that the engine is asking its store about or
// executing. Of all calls of one operation one leads: it alone goes to the
// store. The others wait for it in memory and are answered by what it found,
// or, where it found nothing that answers them too, the first of them leads.
type flights struct {
	seed    maphash.Seed
	waiting atomic.Int64
	max     int64
	shards  [flightShards]flightShard
}

const flightShards = 64

type flightShard struct {
	mu    sync.Mutex
	byKey map[Key]*flight
	_     [64]byte // no two shards' locks in one cache line
}

// flight is one operation. The lock of its shard guards it.
type flight struct {
	key Key
	// fingerprint is the leader's.
	fingerprint Fingerprint
	// judged says that the store found fingerprint to be the operation's own,
	// so that another one is a reused key.
	judged  bool
	waiters list.List // of *waiter, the longest waiting first
}

// waiter is a call that waits for the leader.
type waiter struct {
	fingerprint Fingerprint
	unknown     UnknownPolicy
	place       *list.Element // nil once it has its verdict
	verdict     chan verdict  // has room for one, so that none waits to give it
}

// verdict is what the leader found. The zero verdict answers nobody.
type verdict struct {
	lead   bool   // it is the waiter's turn to lead
	record []byte // the outcome
	err    error  // what every call like the leader's is answered
}

// answers says whether the verdict of a leader that asked for fp answers w.
func (v verdict) answers(w *waiter, fp Fingerprint) bool {
	switch {
	case v.record == nil && v.err == nil, w.fingerprint != fp:
		return false
	case v.err == ErrOutcomeUnknown:
		return w.unknown == Reject
	}
	return true
}

func newFlights(max int) *flights {
	return &flights{seed: maphash.MakeSeed(), max: int64(max)}
}

func (fs *flights) shard(key Key) *flightShard {
	return &fs.shards[maphash.String(fs.seed, key.ID)%flightShards]
}

// join returns the operation's flight. Where there is none yet it is own, and
// the caller leads it; the waiter is then nil. The error is the caller's
// answer.
func (fs *flights) join(op *Operation, own *flight) (*flight, *waiter, error) {
	s := fs.shard(op.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.byKey[op.Key]
	if f == nil {
		if s.byKey == nil {
			s.byKey = make(map[Key]*flight)
		}
		own.key, own.fingerprint = op.Key, op.Fingerprint
		s.byKey[op.Key] = own
		return own, nil, nil
	}
	if f.judged && f.fingerprint != op.Fingerprint {
		return nil, nil, reused(f.fingerprint, op.Fingerprint)
	}
	if !fs.admit() {
		return nil, nil, inProgress(0)
	}
	w := &waiter{fingerprint: op.Fingerprint, unknown: op.OnUnknown, verdict: make(chan verdict, 1)}
	w.place = f.waiters.PushBack(w)
	return f, w, nil
}

// judge is called by the leader when the store has found its fingerprint to
// be the operation's own. Those who came with another are answered.
func (fs *flights) judge(f *flight) {
	s := fs.shard(f.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.judged {
		return
	}
	f.judged = true
	for w := range f.each() {
		if w.fingerprint != f.fingerprint {
			f.give(w, verdict{err: reused(f.fingerprint, w.fingerprint)})
		}
	}
}

// land is called by the leader when it has ended. It answers those whom v
// answers, and lets the first of the others lead.
func (fs *flights) land(f *flight, v verdict) {
	s := fs.shard(f.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range f.each() {
		if v.answers(w, f.fingerprint) {
			f.give(w, v)
		}
	}
	first := f.waiters.Front()
	if first == nil {
		delete(s.byKey, f.key)
		return
	}
	w := first.Value.(*waiter)
	f.fingerprint, f.judged = w.fingerprint, false
	f.give(w, verdict{lead: true})
}

// leave is called by a waiter that waits no longer. It returns the verdict
// that has come meanwhile, if one has.
func (fs *flights) leave(f *flight, w *waiter) (verdict, bool) {
	s := fs.shard(f.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.place == nil {
		return <-w.verdict, true
	}
	f.waiters.Remove(w.place)
	w.place = nil
	return verdict{}, false
}

// each ranges over the waiters, of which the one at hand may be removed.
func (f *flight) each() func(yield func(*waiter) bool) {
	return func(yield func(*waiter) bool) {
		for at := f.waiters.Front(); at != nil; {
			next := at.Next()
			if !yield(at.Value.(*waiter)) {
				return
			}
			at = next
		}
	}
}

func (f *flight) give(w *waiter, v verdict) {
	f.waiters.Remove(w.place)
	w.place = nil
	w.verdict <- v
}

// admit takes one of the places for waiting, if one is free.
func (fs *flights) admit() bool {
	if fs.waiting.Add(1) <= fs.max {
		return true
	}
	fs.waiting.Add(-1)
	return false
}

func (fs *flights) dismiss() { fs.waiting.Add(-1) }
