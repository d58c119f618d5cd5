package dedup

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// background is what an engine does after its callers have been answered.
type background struct {
	mu      sync.Mutex
	closed  bool
	running int
	stop    chan struct{}
	done    sync.WaitGroup
}

// maxBackground bounds the goroutines of an engine. What is beyond it is not
// tried again, and the leases end what it was for.
const maxBackground = 1000

// run calls f in a goroutine, with a channel that is closed when the engine
// is. Where the engine is closed already it calls f itself, with nil. It
// returns false, and does not call f, where too much is being done.
func (b *background) run(f func(stop <-chan struct{})) bool {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		f(nil)
		return true
	}
	defer b.mu.Unlock()
	if b.running == maxBackground {
		return false
	}
	b.running++
	b.done.Go(func() {
		defer b.ended()
		f(b.stop)
	})
	return true
}

func (b *background) ended() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running--
}

func (b *background) close() {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		close(b.stop)
	}
	b.mu.Unlock()
	b.done.Wait()
}

const (
	// A settlement is tried again first after insistFirst, then slower, to
	// insistLast.
	insistFirst = 50 * time.Millisecond
	insistLast  = 2 * time.Second
)

// insist tries a settlement again until it has gone through, the claim is
// lost, or its lease is over. It returns true where it has gone through
// already.
func (r *run) insist(settle func() error) bool {
	r.lease.stop()
	ends := r.lease.ends
	done := make(chan bool, 1)
	taken := r.engine.background.run(func(stop <-chan struct{}) {
		until := ends
		if limit := time.Now().Add(r.engine.storeTimeout); stop == nil && limit.Before(until) {
			until = limit
		}
		err := repeat(stop, until, settle)
		r.engine.logInsisted(r.detached, &r.op, err)
		done <- err == nil
	})
	if !taken {
		r.engine.logInsisted(r.detached, &r.op, errBusy)
		return false
	}
	select {
	case ok := <-done:
		return ok
	default:
		return false
	}
}

// repeat calls settle, with growing pauses, up to until and once more when it
// is stopped.
func repeat(stop <-chan struct{}, until time.Time, settle func() error) error {
	for ceiling := insistFirst; ; ceiling = min(2*ceiling, insistLast) {
		d := ceiling/2 + rand.N(ceiling/2)
		timer := time.NewTimer(min(d, time.Until(until)))
		last := false
		select {
		case <-timer.C:
		case <-stop:
			timer.Stop()
			last = true
		}
		err := settle()
		if err == nil || errors.Is(err, ErrLeaseLost) || last || !time.Now().Before(until) {
			return err
		}
	}
}

var errBusy = errors.New("dedup: too many settlements are being tried again")

func (e *Engine) logInsisted(ctx context.Context, op *Operation, err error) {
	if err == nil {
		e.log(ctx, slog.LevelInfo, "claim was settled after all", op, nil)
		return
	}
	e.log(ctx, slog.LevelError, "claim could not be settled and is left to its lease", op, err)
}
