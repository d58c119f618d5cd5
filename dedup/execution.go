package dedup

import (
	"context"
	"time"
)

// Execution is one run of a handler under a claim. The handler finds it with
// [ExecutionFromContext].
type Execution struct {
	engine   *Engine
	key      *Key // printed as an address, where the execution is printed as a value
	claim    Claim
	class    Class // what the handler overruled, or 0
	deadline time.Time
	outer    *Execution
}

// ExecutionFromContext returns the execution that ctx belongs to, or false
// where the call is not deduplicated.
func ExecutionFromContext(ctx context.Context) (*Execution, bool) {
	ex, ok := ctx.Value(executionKey{}).(*Execution)
	return ex, ok
}

type executionKey struct{}

// String returns the operation's method, and nothing of its scope or ID.
func (ex *Execution) String() string { return ex.key.String() }

// GoString is String's twin for %#v.
func (ex *Execution) GoString() string { return "dedup.Execution{Method:" + ex.key.Method + "}" }

// Fence rises with every execution of the operation. A resource that
// remembers the highest fence it has seen can refuse what an earlier, slower
// execution still sends.
func (ex *Execution) Fence() uint64 { return ex.claim.Fence() }

// Attempt counts the executions of the operation that the store remembers,
// this one included: 1 on the first.
func (ex *Execution) Attempt() int { return ex.claim.Attempt() }

// Settle overrules the class that the answer's code would have: a handler
// that returns RESOURCE_EXHAUSTED for good calls Settle(Terminal), one that
// knows that its INTERNAL had no effect calls Settle(NoEffect). The last call
// counts, and 0 takes back what was said. Where the handler returns an error,
// there is no outcome to record, and Terminal counts as Uncertain. It is not
// safe for concurrent use with the handler's return.
func (ex *Execution) Settle(c Class) { ex.class = c }

// executes says whether ex, or one that it runs inside, is executing key on
// e's store.
func (ex *Execution) executes(e *Engine, key Key) bool {
	for ; ex != nil; ex = ex.outer {
		if *ex.key == key && ex.engine.sharesStore(e) {
			return true
		}
	}
	return false
}

// within says whether ex, or one that it runs inside, is on e's store, and
// returns the innermost that is.
func (ex *Execution) within(e *Engine) *Execution {
	for ; ex != nil; ex = ex.outer {
		if ex.engine.sharesStore(e) {
			return ex
		}
	}
	return nil
}
