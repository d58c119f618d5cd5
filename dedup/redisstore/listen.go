package redisstore

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// listenBackoff bounds the pause before a listener connects again.
const (
	minListenBackoff = 100 * time.Millisecond
	maxListenBackoff = 5 * time.Second
)

// listener hears on one connection for all who wait. It begins with the first
// of them.
type listener struct {
	driver  Driver
	channel string
	logger  *slog.Logger
	ctx     context.Context
	cancel  context.CancelFunc
	done    sync.WaitGroup

	mu        sync.Mutex
	started   bool
	closed    bool
	listening bool
	waiters   map[string]map[chan struct{}]struct{} // by digest
}

func newListener(driver Driver, channel string, logger *slog.Logger) *listener {
	ctx, cancel := context.WithCancel(context.Background())
	return &listener{driver: driver, channel: channel, logger: logger, ctx: ctx, cancel: cancel,
		waiters: make(map[string]map[chan struct{}]struct{})}
}

// subscribe returns a channel that is closed when the operation's claim was
// settled, or may have been, from now on, and how often to look without that.
func (l *listener) subscribe(digest string) (woken <-chan struct{}, poll time.Duration, cancel func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := make(chan struct{})
	if l.closed {
		return w, deafInterval, func() {}
	}
	if !l.started {
		l.started = true
		l.done.Go(l.run)
	}
	if l.waiters[digest] == nil {
		l.waiters[digest] = make(map[chan struct{}]struct{})
	}
	l.waiters[digest][w] = struct{}{}
	poll = deafInterval
	if l.listening {
		poll = pollInterval
	}
	return w, poll, func() { l.unsubscribe(digest, w) }
}

func (l *listener) unsubscribe(digest string, w chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiters[digest], w)
	if len(l.waiters[digest]) == 0 {
		delete(l.waiters, digest)
	}
}

// wake wakes those who wait for one operation.
func (l *listener) wake(digest string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.waiters[digest] {
		close(w)
	}
	delete(l.waiters, digest)
}

// turn says whether somebody listens from now on, and wakes all, because what
// happened meanwhile was not heard.
func (l *listener) turn(listening bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listening = listening
	for _, waiters := range l.waiters {
		for w := range waiters {
			close(w)
		}
	}
	clear(l.waiters)
}

// close stops listening, wakes all who wait and waits for the goroutine.
func (l *listener) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel()
	l.done.Wait()
	l.turn(false)
}

// run listens until it is closed, connecting again where the connection is
// lost.
func (l *listener) run() {
	backoff := minListenBackoff
	for {
		err := l.driver.Listen(l.ctx, l.channel, func() {
			backoff = minListenBackoff
			l.turn(true)
		}, l.wake)
		l.turn(false)
		if l.ctx.Err() != nil {
			return
		}
		l.logger.WarnContext(l.ctx, "redisstore: lost the connection to listen on, connecting again", "error", err)
		if !pause(l.ctx, backoff/2+rand.N(backoff/2)) {
			return
		}
		backoff = min(2*backoff, maxListenBackoff)
	}
}

// pause returns false where the context ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
