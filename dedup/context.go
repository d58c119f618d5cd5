package dedup

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// boundContext is its parent up to a deadline or to its cancellation. It is
// what [context.WithDeadlineCause] gives, but has no timer before somebody asks
// for its Done channel, which a store in memory or a quick handler never does.
type boundContext struct {
	parent    context.Context
	deadline  time.Time
	execution *Execution // the value that it adds, or nil

	mu     sync.Mutex
	over   bool
	cause  error
	cancel context.CancelCauseFunc // inner's
	inner  atomic.Pointer[innerContext]
}

// innerContext is the real context, once one is needed.
type innerContext struct{ context.Context }

func newBoundContext(parent context.Context, deadline time.Time) *boundContext {
	return new(boundContext).begin(parent, deadline)
}

// begin sets up a context that stands in something else, for which it needs no
// allocation of its own. It may be called once.
func (c *boundContext) begin(parent context.Context, deadline time.Time) *boundContext {
	c.parent, c.deadline = parent, deadline
	return c
}

// end cancels the context, where cause may be nil.
func (c *boundContext) end(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.over, c.cause = true, cause
	if c.cancel != nil {
		c.cancel(cause)
	}
}

// Format implements [fmt.Formatter]. Contexts are printed, in logs above all, and
// what is in this one is not to be seen, nor read while it changes.
func (c *boundContext) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "dedup.Context") }

func (c *boundContext) ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

func (c *boundContext) real() context.Context {
	if in := c.inner.Load(); in != nil {
		return in
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if in := c.inner.Load(); in != nil {
		return in
	}
	cancellable, cancel := context.WithCancelCause(c.parent)
	timed, free := context.WithDeadline(cancellable, c.deadline)
	c.cancel = func(cause error) {
		cancel(cause)
		free()
	}
	if c.over {
		c.cancel(c.cause)
	}
	in := &innerContext{timed}
	c.inner.Store(in)
	return in
}

// Deadline implements [context.Context].
func (c *boundContext) Deadline() (time.Time, bool) {
	if d, ok := c.parent.Deadline(); ok && d.Before(c.deadline) {
		return d, true
	}
	return c.deadline, true
}

// Done implements [context.Context].
func (c *boundContext) Done() <-chan struct{} { return c.real().Done() }

// Err implements [context.Context].
func (c *boundContext) Err() error {
	if c.inner.Load() == nil && !c.ended() && c.parent.Err() == nil && time.Now().Before(c.deadline) {
		return nil
	}
	return c.real().Err()
}

// Value implements [context.Context].
func (c *boundContext) Value(key any) any {
	if c.execution != nil && key == (executionKey{}) {
		return c.execution
	}
	if c.inner.Load() == nil && !c.ended() {
		return c.parent.Value(key)
	}
	return c.real().Value(key)
}
