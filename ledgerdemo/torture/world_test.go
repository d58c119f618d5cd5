package torture

import (
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/retrysafe/retrysafe/interceptor/retry"
)

const (
	replicas = 2
	clients  = 8
)

// The parts of a run that draw apart.
const (
	partFaults uint64 = iota + 1
	partSlots         = 100
	partClient        = 1000
)

// world is a rig with servers, clients and faults.
type world struct {
	*rig
	name    string
	secret  string // is in every key, account and reference
	log     *watch
	slots   []*slot
	front   []*wire // between clients and servers
	back    []*wire // between servers and the store; none: a file
	faults  []fault
	conn    *grpc.ClientConn
	started time.Time

	over       atomic.Bool           // no new faults
	lastUntold atomic.Pointer[error] // why a client was told nothing

	mu      sync.Mutex
	history []call
}

// newWorld starts replicas of servers on a rig.
func newWorld(tb testing.TB, name string, r *rig, faults ...fault) *world {
	tb.Helper()
	secret := strings.ToLower(rand.Text())
	w := &world{rig: r, name: name, secret: secret, log: &watch{secret: []byte(secret)}, started: time.Now()}
	w.faults = append(faults, serverFaults...)
	r.db.SetMaxIdleConns(0) // faults end connections
	var addrs []string
	for i := range replicas {
		w.addSlot(i)
		w.front = append(w.front, newWire(tb, w.slots[i].addr()))
		addrs = append(addrs, w.front[i].addr())
	}
	if len(w.back) > 0 {
		w.faults = append(w.faults, storeFaults...)
	}
	w.conn = dial(tb, retry.Policy{
		MaxAttempts:       8,
		Backoff:           retry.Backoff{Base: 10 * time.Millisecond, Cap: 200 * time.Millisecond},
		PerAttemptTimeout: 500 * time.Millisecond,
	}, addrs...)
	return w
}

// addSlot makes a place for a server, with a way to the store of its own. Most
// servers have a plan.
func (w *world) addSlot(i int) {
	c := w.config
	if u, err := url.Parse(c.Store); err == nil && u.Host != "" {
		back := newWire(w.tb, u.Host)
		w.back = append(w.back, back)
		u.Host = back.addr()
		c.Store = u.String()
	}
	drawn := stream(partSlots + uint64(i))
	s := newSlot(w.tb, w.log, func(int) config {
		c := c
		c.Plan = drawPlan(drawn)
		if w.over.Load() {
			c.Plan = plan{}
		}
		return c
	})
	s.frozen = 2 * w.Lease
	s.reached = func(p plan) {
		if p.Freeze {
			totals.fault("servers frozen at a named step", 1)
			return
		}
		totals.fault("servers killed at a named step", 1)
	}
	w.slots = append(w.slots, s)
}

func drawPlan(r *mathrand.Rand) plan {
	p := plan{Step: pick(r, steps()), Nth: 1 + r.Int64N(20), Freeze: r.IntN(3) == 0}
	if r.IntN(4) == 0 {
		return plan{}
	}
	return p
}

// torture lets clients call and faults happen for a while, and returns when all
// is calm again and every key has been asked for once more.
func (w *world) torture(d time.Duration) {
	w.tb.Helper()
	accounts := w.accounts(d)
	w.openAccounts(0, accounts...)
	for _, s := range w.slots {
		s.start()
	}
	stop := make(chan struct{})
	var running sync.WaitGroup
	for i := range clients {
		running.Go(func() { w.client(i, accounts, stop) })
	}
	w.breakThings(d)
	close(stop)
	running.Wait()
	w.settle()
}

// accounts names as many as clients can use in that time.
func (w *world) accounts(d time.Duration) []string {
	names := make([]string, 64+int(60*d.Seconds()))
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", w.secret, i)
	}
	return names
}

// breakThings makes faults, of each kind as often as of any other, and of each
// once at least.
func (w *world) breakThings(d time.Duration) {
	r := stream(partFaults)
	for until := time.Now().Add(d); ; {
		for _, i := range r.Perm(len(w.faults)) {
			f := w.faults[i]
			totals.fault(f.name, f.do(w, r))
			within(r, 100*time.Millisecond)
		}
		if time.Now().After(until) {
			break
		}
	}
	w.over.Store(true)
}

// record adds a call to the history.
func (w *world) record(c call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history = append(w.history, c)
}

// now is the time of the history.
func (w *world) now() time.Duration { return time.Since(w.started) }
