package pgstore

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/retrysafe/retrysafe/dedup"
)

const (
	// pollInterval is when a waiter that was not woken looks for itself: a
	// notification may be lost with the listener's connection, and behind some
	// poolers there are none.
	pollInterval = time.Second
	// deafInterval is that while there is no listener.
	deafInterval = 100 * time.Millisecond
	// listenBackoff bounds the pause before a listener connects again.
	minListenBackoff = 100 * time.Millisecond
	maxListenBackoff = 5 * time.Second
)

// Wait implements [dedup.Waiter]. It returns after a second at the latest.
func (l *Leased) Wait(ctx context.Context, key dedup.Key) error {
	id := newIdentity(key)
	woken, listening, cancel := l.listener.subscribe(id.name())
	defer cancel()
	interval := pollInterval
	if !listening {
		interval = deafInterval
	}
	left, told, err := l.watch(ctx, id)
	if err != nil || left == 0 {
		return err
	}
	if !told {
		return nil // it changed while it was being looked at
	}
	timer := time.NewTimer(min(left, interval/2+rand.N(interval/2)))
	defer timer.Stop()
	select {
	case <-woken:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// watch returns how long a live claim still lives, 0 where there is none, and
// whether its end will be told on the channel.
func (l *Leased) watch(ctx context.Context, id identity) (left time.Duration, told bool, err error) {
	err = readCommitted(ctx, l.pool, func(b *pgx.Batch) {
		b.Queue(l.sql.watch, id.scope, id.method, id.id).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				var micros int64
				if err := rows.Scan(&micros, &told); err != nil {
					return err
				}
				left = max(microseconds(micros), time.Millisecond)
			}
			return rows.Err()
		})
	})
	if err != nil {
		return 0, false, explain("wait", err)
	}
	return left, told, nil
}

// listener hears on one connection for all who wait.
type listener struct {
	pool   *pgxpool.Pool
	logger *slog.Logger
	start  sync.Once
	cancel context.CancelFunc
	ctx    context.Context
	done   sync.WaitGroup

	mu        sync.Mutex
	listening bool
	closed    bool
	waiters   map[string]map[*waiter]struct{}
}

// waiter is woken by closing its channel.
type waiter struct{ woken chan struct{} }

func newListener(pool *pgxpool.Pool, logger *slog.Logger) *listener {
	ctx, cancel := context.WithCancel(context.Background())
	return &listener{pool: pool, logger: logger, ctx: ctx, cancel: cancel, waiters: make(map[string]map[*waiter]struct{})}
}

// subscribe returns a channel that is closed when the operation's claim was
// settled, or may have been, from now on.
func (l *listener) subscribe(name string) (woken <-chan struct{}, listening bool, cancel func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := &waiter{woken: make(chan struct{})}
	if l.closed {
		return w.woken, false, func() {}
	}
	l.start.Do(func() { l.done.Go(l.run) })
	if l.waiters[name] == nil {
		l.waiters[name] = make(map[*waiter]struct{})
	}
	l.waiters[name][w] = struct{}{}
	return w.woken, l.listening, func() { l.unsubscribe(name, w) }
}

func (l *listener) unsubscribe(name string, w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiters[name], w)
	if len(l.waiters[name]) == 0 {
		delete(l.waiters, name)
	}
}

func (l *listener) wake(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.waiters[name] {
		close(w.woken)
	}
	delete(l.waiters, name)
}

// turn wakes all who wait, because what happened meanwhile was not heard.
func (l *listener) turn(listening bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listening = listening
	for _, waiters := range l.waiters {
		for w := range waiters {
			close(w.woken)
		}
	}
	clear(l.waiters)
}

// close stops the listener, wakes all who wait and waits for its goroutine.
func (l *listener) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel()
	l.done.Wait()
	l.turn(false)
}

func (l *listener) run() {
	for backoff := minListenBackoff; ; backoff = min(2*backoff, maxListenBackoff) {
		heard, err := l.listen()
		if l.ctx.Err() != nil {
			return
		}
		l.logger.WarnContext(l.ctx, "pgstore: the listener has lost its connection and will connect again", "error", err)
		if heard {
			backoff = minListenBackoff
		}
		if !sleep(l.ctx, backoff/2+rand.N(backoff/2)) {
			return
		}
	}
}

// listen hears until its connection is lost, and returns whether it had one.
func (l *listener) listen() (heard bool, err error) {
	pooled, err := l.pool.Acquire(l.ctx)
	if err != nil {
		return false, err
	}
	conn := pooled.Hijack()
	defer func() {
		// Short, and not l.ctx, which has ended where the store is being closed.
		ctx, cancel := context.WithTimeout(context.Background(), rollbackTimeout)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	if _, err := conn.Exec(l.ctx, "LISTEN "+channel); err != nil {
		return false, err
	}
	l.turn(true)
	defer l.turn(false)
	for {
		n, err := conn.WaitForNotification(l.ctx)
		if err != nil {
			return true, err
		}
		l.wake(n.Payload)
	}
}
