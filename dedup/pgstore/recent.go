package pgstore

import "sync"

// recentSize is how many operations a generation remembers. Two of them take
// about a megabyte.
const recentSize = 1 << 14

// recent remembers, by the numbers of their locks, operations that this store
// has seen recorded. It is a hint that saves a trip, and changes no answer:
// whoever trusts it looks into the database all the same.
type recent struct {
	mu         sync.Mutex
	young, old map[int64]struct{}
}

func newRecent() *recent { return &recent{young: make(map[int64]struct{})} }

func (r *recent) has(lock int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.young[lock]; ok {
		return true
	}
	_, ok := r.old[lock]
	return ok
}

func (r *recent) add(lock int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.young) >= recentSize {
		r.old, r.young = r.young, make(map[int64]struct{})
	}
	r.young[lock] = struct{}{}
}
