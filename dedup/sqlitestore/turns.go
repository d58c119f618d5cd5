package sqlitestore

import (
	"container/list"
	"context"
	"sync"
)

// turns says whose turn it is to use the writer: one holder at a time, the
// others in line. Whoever holds the turn owns the open transaction.
type turns struct {
	mu     sync.Mutex
	held   bool
	closed bool
	line   list.List // of chan error: nil is the turn, anything else the end
	idle   chan struct{}
}

// acquire waits in line for the turn.
func (t *turns) acquire(ctx context.Context) error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return ErrClosed
	}
	if !t.held {
		t.held = true
		t.mu.Unlock()
		return nil
	}
	mine := make(chan error, 1)
	place := t.line.PushBack(mine)
	t.mu.Unlock()

	select {
	case err := <-mine:
		return err
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case err := <-mine: // it came at the same moment
		return err
	default:
		t.line.Remove(place)
		return ctx.Err()
	}
}

// tryAcquire takes the turn where nobody has it.
func (t *turns) tryAcquire() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held || t.closed {
		return false
	}
	t.held = true
	return true
}

// handOver gives the turn to the next in line, and says whether there was one.
func (t *turns) handOver() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.next()
}

// release ends the turn, whether or not somebody waits for it.
func (t *turns) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next() {
		return
	}
	t.held = false
	if t.idle != nil {
		close(t.idle)
		t.idle = nil
	}
}

// next needs mu.
func (t *turns) next() bool {
	first := t.line.Front()
	if first == nil {
		return false
	}
	t.line.Remove(first).(chan error) <- nil
	return true
}

// waiting counts those in line.
func (t *turns) waiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.line.Len()
}

// close sends away those in line and all who come later. The channel that it
// returns is closed once nobody holds the turn.
func (t *turns) close() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for first := t.line.Front(); first != nil; first = t.line.Front() {
		t.line.Remove(first).(chan error) <- ErrClosed
	}
	idle := make(chan struct{})
	if t.held {
		t.idle = idle
	} else {
		close(idle)
	}
	return idle
}
