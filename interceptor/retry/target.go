package retry

import (
	"fmt"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
)

// maxTargets is how many targets are remembered before those without a
// history are forgotten.
const maxTargets = 1024

// target is what calls to one target share.
type target struct {
	key    string // as the connection was made with
	name   string // as telemetry and hooks show it
	bucket *bucket
}

// targets finds the target of a connection. An interceptor may serve many
// connections; those to the same target share a bucket.
type targets struct {
	budget *Budget // nil: none

	first atomic.Pointer[target] // the common case: one connection, one target
	all   sync.Map               // string to *target
	mu    sync.Mutex             // guards count and additions to all
	count int
}

// of returns the target of cc. Without a connection, as in a test with an
// invoker of its own, the target is "".
func (t *targets) of(cc *grpc.ClientConn) *target {
	var key string
	if cc != nil {
		key = cc.Target()
	}
	if first := t.first.Load(); first != nil && first.key == key {
		return first
	}
	if found, ok := t.all.Load(key); ok {
		return found.(*target)
	}
	name := key
	if cc != nil {
		name = cc.CanonicalTarget()
	}
	made := t.add(key, name)
	t.first.CompareAndSwap(nil, made)
	return made
}

// ofConn returns the target of the i-th connection of WithFailover.
func (t *targets) ofConn(conn grpc.ClientConnInterface, i int) *target {
	if cc, ok := conn.(*grpc.ClientConn); ok {
		return t.add(cc.Target(), cc.CanonicalTarget())
	}
	name := fmt.Sprintf("failover-%d", i+1)
	return t.add(name, name)
}

func (t *targets) add(key, name string) *target {
	t.mu.Lock()
	defer t.mu.Unlock()
	if found, ok := t.all.Load(key); ok {
		return found.(*target)
	}
	if t.count >= maxTargets {
		t.forget()
	}
	made := &target{key: key, name: name}
	if t.budget != nil {
		made.bucket = newBucket(*t.budget)
	}
	t.all.Store(key, made)
	t.count++
	return made
}

// forget drops every target with a full bucket: a new one in its place starts
// out the same.
func (t *targets) forget() {
	t.all.Range(func(key, value any) bool {
		if known := value.(*target); known.bucket.full() && known != t.first.Load() {
			t.all.Delete(key)
			t.count--
		}
		return true
	})
}
