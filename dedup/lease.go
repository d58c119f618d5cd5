package dedup

import (
	"context"
	"errors"
	"sync"
	"time"
)

// lease keeps a claim alive while its handler runs and its outcome is recorded.
// It is renewed at every third of its length. Where it cannot be, it is reckoned from when the store
// was last asked, which is never later than the store's own reckoning, and the
// handler's context is cancelled when it has run out.
type lease struct {
	run *run

	mu       sync.Mutex
	timer    *time.Timer
	ends     time.Time
	answered bool // the handler has
	stopped  bool
	renewal  *boundContext // of the renewal under way, or nil
	idle     sync.WaitGroup
}

// leaseTick is the least time between two renewals.
const leaseTick = time.Millisecond

var errSlow = errors.New("dedup: the store took longer to answer than the lease lasts")

// hold begins to renew the lease of a claim that was asked for at sent.
func (l *lease) hold(r *run, sent time.Time) error {
	l.run = r
	l.ends = sent.Add(r.op.Lease)
	if !time.Now().Before(l.ends) {
		// The answer took so long that another may have the claim by now.
		sent = time.Now()
		if err := l.renew(r.detached); err != nil {
			return err
		}
		l.ends = sent.Add(r.op.Lease)
		if !time.Now().Before(l.ends) {
			return errSlow
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = time.AfterFunc(max(time.Until(sent.Add(r.op.Lease/3)), leaseTick), l.tick)
	return nil
}

// answer says that the handler has answered. Whether the claim is still its own
// is then the settlement's to find out: a renewal that comes after it finds
// nothing to renew.
func (l *lease) answer() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answered = true
}

// stop ends the renewing and waits for a renewal that is under way.
func (l *lease) stop() {
	l.mu.Lock()
	if l.timer != nil {
		l.timer.Stop()
	}
	l.stopped = true
	if l.renewal != nil {
		l.renewal.end(nil)
	}
	l.mu.Unlock()
	l.idle.Wait()
}

// tick renews the lease once and plans the next time.
func (l *lease) tick() {
	l.mu.Lock()
	if l.stopped {
		l.mu.Unlock()
		return
	}
	sent := time.Now()
	if !sent.Before(l.ends) {
		l.lose(nil)
		l.mu.Unlock()
		return
	}
	ctx := newBoundContext(l.run.detached, l.ends)
	l.renewal = ctx
	l.idle.Add(1)
	l.mu.Unlock()
	defer l.idle.Done()

	err := l.renew(ctx)
	ctx.end(nil)

	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewal = nil
	if l.stopped {
		return
	}
	next := l.run.op.Lease / 12
	if err == nil {
		l.ends = sent.Add(l.run.op.Lease)
		next = l.run.op.Lease / 3
	}
	left := time.Until(l.ends)
	if left <= 0 || errors.Is(err, ErrLeaseLost) {
		l.lose(err)
		return
	}
	l.timer.Reset(max(min(next-time.Since(sent), left), leaseTick))
}

// lose ends the renewing, and tells the handler, if it still runs, that another
// may execute the operation now. The caller holds the lock.
func (l *lease) lose(err error) {
	l.stopped = true
	if l.answered {
		return
	}
	r := l.run
	r.engine.logLost(r.detached, &r.op, err)
	r.handler.end(ErrLeaseLost)
}

func (l *lease) renew(parent context.Context) error {
	r := l.run
	ctx := newBoundContext(parent, time.Now().Add(r.engine.storeTimeout))
	defer ctx.end(nil)
	started := r.engine.callStarts()
	err := r.claim.Renew(ctx, r.op.Lease)
	r.engine.called(r.detached, &r.op, StoreCallRenew, started, err)
	return err
}
