package outage

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The server, and its outage.
const (
	capacity   = 12_000                 // answers a second: a fifth more than is asked for
	queueLimit = 250 * time.Millisecond // what would wait longer is refused

	hangs  = 5 * time.Second // since the simulation began
	dies   = hangs + time.Second
	isBack = dies + 9*time.Second

	slice = 100 * time.Millisecond // of time, in which attempts are counted
)

var (
	errDied    = status.Error(codes.Unavailable, "the connection was lost")
	errRefused = status.Error(codes.Unavailable, "connection refused")
	errBusy    = status.Error(codes.Unavailable, "the queue is full")
)

// server is one queue with one speed.
type server struct {
	began time.Time
	dead  chan struct{} // closed when it dies

	mu       sync.Mutex
	free     time.Duration // when all that is in the queue is answered
	attempts []int         // that came in each slice of time
}

func newServer(whole time.Duration) *server {
	s := &server{began: time.Now(), dead: make(chan struct{}), attempts: make([]int, whole/slice+1)}
	time.AfterFunc(dies, func() { close(s.dead) })
	return s
}

// answer takes an attempt as long as the server and ctx allow.
func (s *server) answer(ctx context.Context) error {
	now := time.Since(s.began)
	s.count(now)
	switch {
	case now < hangs:
	case now < dies:
		return s.hang(ctx)
	case now < isBack:
		return errRefused
	}
	wait, ok := s.enqueue(now)
	if !ok {
		return errBusy
	}
	return s.serve(ctx, wait, now+wait > hangs && now < hangs)
}

func (s *server) count(now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := int(now / slice); i < len(s.attempts) {
		s.attempts[i]++
	}
}

// enqueue returns how long an attempt waits for its answer, or that the queue
// is full.
func (s *server) enqueue(now time.Duration) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = max(s.free, now) + time.Second/capacity
	if s.free-now > queueLimit {
		s.free -= time.Second / capacity
		return 0, false
	}
	return s.free - now, true
}

func (s *server) serve(ctx context.Context, wait time.Duration, caught bool) error {
	if caught {
		return s.hang(ctx)
	}
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

func (s *server) hang(ctx context.Context) error {
	select {
	case <-s.dead:
		return errDied
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}
