package pgstore

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/retrysafe/retrysafe/dedup"
)

const (
	// minPause and maxPause bound the pause before a store asks again for an
	// operation that it found held and could not wait for in the database.
	minPause = 2 * time.Millisecond
	maxPause = 200 * time.Millisecond
	// longestWait bounds one wait in the database where the context does not.
	longestWait = 30 * time.Second
)

// waiting lets callers of a store wait for operations that others execute. Of
// those that wait for one operation one waits in the database and the others
// for that one. All together they leave most of the pool alone.
type waiting struct {
	slots chan struct{}
	mu    sync.Mutex
	keys  map[dedup.Key]chan struct{} // closed when the one in the database is done
}

func newWaiting(pool *pgxpool.Pool) *waiting {
	slots := max(1, int(pool.Config().MaxConns)/4)
	return &waiting{slots: make(chan struct{}, slots), keys: make(map[dedup.Key]chan struct{})}
}

// await returns true when it makes sense to ask for the operation again, and
// false when ctx leaves no time for that. tries counts how often it was found
// held.
func (w *waiting) await(ctx context.Context, s *Store, key dedup.Key, id identity, tries int) bool {
	ctx, cancel, ok := withMargin(ctx)
	defer cancel()
	if !ok {
		return false
	}
	// The one who waits in the database holds the lock for a moment when it has
	// got it, and two of two processes could keep it from each other.
	if tries > 0 && !sleep(ctx, pause(tries)) {
		return false
	}
	done, first := w.enter(key)
	if !first {
		return until(ctx, done)
	}
	defer w.leave(key, done)
	select {
	case w.slots <- struct{}{}:
	default:
		return sleep(ctx, pause(tries))
	}
	defer func() { <-w.slots }()
	return s.block(ctx, id)
}

func (w *waiting) enter(key dedup.Key) (done chan struct{}, first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if done, ok := w.keys[key]; ok {
		return done, false
	}
	done = make(chan struct{})
	w.keys[key] = done
	return done, true
}

func (w *waiting) leave(key dedup.Key, done chan struct{}) {
	w.mu.Lock()
	delete(w.keys, key)
	w.mu.Unlock()
	close(done)
}

// withMargin takes from ctx's time what it takes to answer, so that the answer
// is InProgress and not an error.
func withMargin(ctx context.Context) (context.Context, context.CancelFunc, bool) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return ctx, func() {}, ctx.Err() == nil
	}
	left := time.Until(deadline)
	margin := min(max(left/8, 5*time.Millisecond), 100*time.Millisecond)
	if left <= margin {
		return ctx, func() {}, false
	}
	ctx, cancel := context.WithDeadline(ctx, deadline.Add(-margin))
	return ctx, cancel, ctx.Err() == nil
}

// pause has full jitter under a ceiling that doubles.
func pause(tries int) time.Duration {
	ceiling := maxPause
	if tries < 16 {
		ceiling = min(maxPause, minPause<<tries)
	}
	return rand.N(ceiling) + 1
}

// sleep returns false where ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func until(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// block waits in the database until nobody holds the operation's lock, in a
// transaction of its own that holds nothing else. The server ends the wait in
// time by its lock_timeout: a context that ends under a query costs the
// connection.
func (s *Store) block(ctx context.Context, id identity) bool {
	limit := longestWait
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline))
	}
	if limit < time.Millisecond {
		return false
	}
	err := s.once(ctx, func(t *trip) {
		t.add(&s.sql.beginReadCommitted)
		t.add(&s.sql.limit, strconv.AppendInt(nil, limit.Milliseconds(), 10))
		t.add(&s.sql.await, int8Param(id.lock()))
		t.add(&s.sql.commit)
	}, noRow)
	return err == nil || codeOf(err) != "" && ctx.Err() == nil
}
