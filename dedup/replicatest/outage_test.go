package replicatest

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/internal/testserver"
)

// limit is the store timeout and the wait of replicas whose store goes away.
// slack is what a loaded machine may take beside: far less than what a call
// without a limit would.
const (
	limit = time.Second
	slack = 20 * time.Second
)

// server is a server of the test's own, with a storage of each kind that it
// serves.
type server struct {
	*testserver.Server
	storages []storage
}

// startServer starts a server that loses nothing when it is killed.
func startServer(t *testing.T, kinds ...kind) server {
	t.Helper()
	var s server
	if kinds[0] == redis {
		s.Server = testserver.StartRedis(t, "appendonly yes", "appendfsync always")
	} else {
		s.Server = testserver.StartPostgres(t)
	}
	for _, k := range kinds {
		s.storages = append(s.storages, newStorageAt(t, k, s.URL()))
	}
	return s
}

// forEachServer runs the test on a server of each kind.
func forEachServer(t *testing.T, test func(*testing.T, server)) {
	for name, kinds := range map[string][]kind{"PostgreSQL": {postgres, postgresLeased}, "Redis": {redis}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, startServer(t, kinds...))
		})
	}
}

// limited starts a replica that does not wait for long.
func (s storage) limited(tb testing.TB, name string) *replica {
	tb.Helper()
	return s.replica(tb, name, dedup.WithStoreTimeout(limit), dedup.WithWait(limit))
}

// wantUnavailable fails the test where a call did not say in time that its store
// is away.
func (r *replica) wantUnavailable(a answered, doing string) {
	r.tb.Helper()
	var failed *dedup.StoreError
	if !errors.As(a.err, &failed) || failed.Op != doing || !errors.Is(a.err, dedup.ErrStoreUnavailable) {
		r.tb.Errorf("%s: %+v, %v; want a StoreError that says %q", r.name, a.Result, a.err, doing)
	}
	if doing == "claim" && a.executed() {
		r.tb.Errorf("%s: executed without a claim", r.name)
	}
	if a.took > limit+slack {
		r.tb.Errorf("%s: answered after %v", r.name, a.took)
	}
}

// recovered asks until the store is used again.
func (r *replica) recovered(op dedup.Operation) (a answered) {
	r.tb.Helper()
	eventually(r.tb, "the store is used again", func() bool {
		a = r.do(op)
		return !errors.Is(a.err, dedup.ErrStoreUnavailable) && !errors.Is(a.err, dedup.ErrInProgress)
	})
	return a
}

// service is two replicas and a third with a cache, and what they are asked.
type service struct {
	storage
	first, second, cached  *replica
	known, hidden, unknown dedup.Operation
}

// serve starts a service on each of a server's storages. The first replica has
// executed what is known, the one with the cache what is hidden in it.
func serve(t *testing.T, server server) (services []service) {
	t.Helper()
	for _, s := range server.storages {
		cache, err := dedup.NewCache(s.store(t))
		must(t, err)
		v := service{
			storage: s, first: s.limited(t, "first"), second: s.limited(t, "second"),
			cached: s.replicaOn(t, "cached", cache, dedup.WithStoreTimeout(limit), dedup.WithWait(limit)),
			known:  newOperation(), hidden: newOperation(), unknown: newOperation(),
		}
		v.unknown.Lease = leaseOfTheDead // a server may yet give a claim that nobody waits for any more
		v.first.wantExecuted(v.first.do(v.known))
		v.cached.wantExecuted(v.cached.do(v.hidden))
		services = append(services, v)
	}
	return services
}

// wantClosed fails the test where anything is executed or answered while the
// server is away, but what a cache knows.
func (v service) wantClosed(t *testing.T) {
	t.Helper()
	v.first.wantUnavailable(v.first.do(v.known), "claim")
	v.second.wantUnavailable(v.second.do(v.known), "claim")
	v.first.wantUnavailable(v.first.do(v.unknown), "claim")

	v.cached.wantUnavailable(v.cached.do(v.known), "claim")
	v.cached.wantReplayed(v.cached.do(v.hidden), "cached")
	another := v.hidden
	another.Fingerprint = dedup.FingerprintBytes([]byte("debit 6 EUR"))
	if a := v.cached.do(another); !errors.Is(a.err, dedup.ErrKeyReused) {
		t.Errorf("another request: %+v, %v", a.Result, a.err)
	}
}

// wantOpen fails the test where all is not as before once the server is back.
func (v service) wantOpen(t *testing.T) {
	t.Helper()
	v.second.wantReplayed(v.second.recovered(v.known), "first")
	v.first.wantReplayed(v.first.recovered(v.known), "first")
	v.cached.wantReplayed(v.cached.recovered(v.known), "first")
	v.first.wantExecuted(v.first.recovered(v.unknown))
	v.wantEffects(t, v.known, "first")
	v.wantEffects(t, v.hidden, "cached")
	v.wantEffects(t, v.unknown, "first")
}

// TestAnOutageFailsClosed: while the server is dead, or stands still, nothing is
// executed, and nobody is kept waiting for longer than the limits say. Nothing
// needs to be done when it is back.
func TestAnOutageFailsClosed(t *testing.T) {
	forEachServer(t, func(t *testing.T, server server) {
		for how, away := range outages {
			services := serve(t, server)
			back := away(t, server)
			for _, v := range services {
				v.wantClosed(t)
			}
			back()
			for _, v := range services {
				v.wantOpen(t)
			}
			if t.Failed() {
				t.Fatalf("the server was %s", how)
			}
		}
	})
}

// TestAnOutageAfterTheEffect: in a store of leases the effect stands, its caller
// is told of it, and the outcome is recorded as soon as the store is back.
func TestAnOutageAfterTheEffect(t *testing.T) {
	for _, k := range leased {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			server := startServer(t, k)
			s := server.storages[0]
			for how, away := range outages {
				first, second := s.limited(t, "first"), s.replica(t, "second")
				op := newOperation()
				var back func()
				a := first.do(op, func(context.Context) { back = away(t, server) })
				if a.err != nil || a.Outcome.Message != "first" || !a.Unrecorded || a.took > limit+slack {
					t.Errorf("%s: %+v, %v after %v; want an unrecorded outcome", how, a.Result, a.err, a.took)
				}
				back()
				second.wantReplayed(second.recovered(op), "first")
				s.wantEffects(t, op, "first")
			}
		})
	}
}

// TestAnOutageBeforeTheCommit: nobody is told of an outcome, and the repeat finds
// out whether there is one. There is one effect in any case.
func TestAnOutageBeforeTheCommit(t *testing.T) {
	server := startServer(t, postgres)
	s := server.storages[0]
	for how, away := range outages {
		first, second := s.limited(t, "first"), s.limited(t, "second")
		op := newOperation()
		var back func()
		first.wantUnavailable(first.do(op, func(context.Context) { back = away(t, server) }), "complete")
		back()
		a := second.recovered(op)
		if a.err != nil || a.Replayed == a.executed() {
			t.Fatalf("%s: %+v, %v", how, a.Result, a.err)
		}
		s.wantEffects(t, op, a.Outcome.Message)
		first.wantReplayed(first.recovered(op), a.Outcome.Message)
	}
}

// outages take a server away, and return what brings it back.
var outages = map[string]func(*testing.T, server) (back func()){
	"killed": func(t *testing.T, server server) func() {
		must(t, server.Kill())
		return func() { must(t, server.Start()) }
	},
	// Connections stay open, and nobody answers.
	"stopped": func(t *testing.T, server server) func() {
		backends := server.backends(t)
		must(t, server.signal(syscall.SIGSTOP, backends))
		back := sync.OnceFunc(func() { must(t, server.signal(syscall.SIGCONT, backends)) })
		t.Cleanup(back)
		return back
	},
}

// backends returns the processes that serve connections, where there is one for
// each.
func (s server) backends(t *testing.T) []int {
	t.Helper()
	if s.storages[0].Kind == redis {
		return nil
	}
	conn, err := pgx.Connect(bounded(t), s.URL())
	must(t, err)
	defer conn.Close(context.Background())
	rows, err := conn.Query(bounded(t), "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
	must(t, err)
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	must(t, err)
	return pids
}

func (s server) signal(signal syscall.Signal, backends []int) error {
	errs := []error{s.Signal(signal)}
	for _, pid := range backends {
		if err := syscall.Kill(pid, signal); !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
