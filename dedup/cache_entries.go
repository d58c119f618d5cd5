package dedup

import (
	"container/list"
	"slices"
	"time"
)

// cached is an outcome in a cache. It is not changed once it is there.
type cached struct {
	key         Key
	fingerprint Fingerprint
	record      []byte
	until       clocks
}

func (e *cached) size() int64 { return int64(keySize(e.key) + len(e.record)) }

// clocks is a time on both clocks of this machine, in nanoseconds. The
// monotonic one is not set, but stands still while the machine is suspended;
// the wall clock goes on, but may be set back. What one of them calls over is
// over.
type clocks struct{ monotonic, wall int64 }

// clocksSince reads both clocks.
func clocksSince(start time.Time) func() clocks {
	return func() clocks {
		now := time.Now()
		return clocks{monotonic: int64(now.Sub(start)), wall: now.UnixNano()}
	}
}

func (t clocks) add(d time.Duration) clocks {
	return clocks{monotonic: later(t.monotonic, d), wall: later(t.wall, d)}
}

func (t clocks) reached(now clocks) bool {
	return now.monotonic >= t.monotonic || now.wall >= t.wall
}

const (
	// A store may drop what is below a millisecond of a retention, and its
	// clock may run faster than this machine's. NTP lets two clocks differ by
	// one part in a thousand at the worst.
	cacheMargin = time.Millisecond
	cacheDrift  = 1000
)

// surelyKept is how long a record is kept at least, by this machine's clock,
// from before its completion was sent.
func surelyKept(retention time.Duration) time.Duration {
	return retention - max(cacheMargin, retention/cacheDrift)
}

// get returns the outcome of an operation, or nil.
func (c *cache) get(key Key) *cached {
	c.mu.Lock()
	defer c.mu.Unlock()
	place := c.entries[key]
	if place == nil {
		return nil
	}
	e := place.Value.(*cached)
	if e.until.reached(c.now()) {
		c.remove(place)
		return nil
	}
	c.recent.MoveToFront(place)
	return e
}

// put keeps an outcome whose completion was sent at sent, if it fits.
func (c *cache) put(key Key, f Fingerprint, done Completion, sent clocks) {
	lifetime := min(surelyKept(done.Retention), c.settings.time)
	if lifetime <= 0 || int64(keySize(key)+len(done.Record)) > c.settings.bytes {
		return
	}
	e := &cached{key: key.clone(), fingerprint: f, record: slices.Clone(done.Record), until: sent.add(lifetime)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.entries[key]; old != nil { // its time is over
		c.remove(old)
	}
	c.entries[e.key] = c.recent.PushFront(e)
	c.bytes += e.size()
	for len(c.entries) > c.settings.keys || c.bytes > c.settings.bytes {
		c.remove(c.recent.Back())
	}
}

// remove needs mu.
func (c *cache) remove(place *list.Element) {
	e := c.recent.Remove(place).(*cached)
	delete(c.entries, e.key)
	c.bytes -= e.size()
}

// clone returns a key that keeps nothing alive but itself.
func (k Key) clone() Key {
	text := k.Scope + k.Method + k.ID
	method := len(k.Scope)
	id := method + len(k.Method)
	return Key{Scope: text[:method], Method: text[method:id], ID: text[id:]}
}
