package torture

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/retrysafe/retrysafe/internal/testserver"
)

// fault is one kind of fault. do makes it and returns how often.
type fault struct {
	name string
	do   func(w *world, r *rand.Rand) int
}

// within sleeps for a time below a limit.
func within(r *rand.Rand, limit time.Duration) { time.Sleep(limit/4 + rand1(r, limit*3/4)) }

func rand1(r *rand.Rand, limit time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(limit)))
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// serverFaults are made in any world.
var serverFaults = []fault{
	{"servers killed at any time", func(w *world, r *rand.Rand) int {
		return count(pick(r, w.slots).signal(syscall.SIGKILL))
	}},
	{"servers frozen at any time", func(w *world, r *rand.Rand) int {
		s := pick(r, w.slots)
		if !s.signal(syscall.SIGSTOP) {
			return 0
		}
		within(r, 3*w.Lease)
		s.signal(syscall.SIGCONT)
		return 1
	}},
	{"client connections cut", func(w *world, r *rand.Rand) int { return pick(r, w.front).cut() }},
	{"client connections slowed", func(w *world, r *rand.Rand) int { return slow(pick(r, w.front), r) }},
	{"client connections cut with their answers", func(w *world, r *rand.Rand) int { return lose(pick(r, w.front), r) }},
}

// storeFaults are made where servers reach the store over a network.
var storeFaults = []fault{
	{"store connections cut", func(w *world, r *rand.Rand) int { return pick(r, w.back).cut() }},
	{"store connections slowed", func(w *world, r *rand.Rand) int { return slow(pick(r, w.back), r) }},
	{"store connections cut with their answers", func(w *world, r *rand.Rand) int { return lose(pick(r, w.back), r) }},
}

func slow(w *wire, r *rand.Rand) int {
	w.slow(time.Millisecond + rand1(r, 30*time.Millisecond))
	within(r, 300*time.Millisecond)
	w.slow(0)
	return 1
}

func lose(w *wire, r *rand.Rand) int {
	w.hold()
	within(r, 200*time.Millisecond)
	return w.lose()
}

func count(happened bool) int {
	if happened {
		return 1
	}
	return 0
}

// restarted kills the database server, PostgreSQL by an immediate shutdown,
// and starts it again.
func restarted(server *testserver.Server) func(*world, *rand.Rand) int {
	return func(w *world, r *rand.Rand) int {
		if err := server.Kill(); err != nil {
			w.tb.Error(err)
			return 0
		}
		within(r, 200*time.Millisecond)
		if err := server.Start(); err != nil {
			w.tb.Error(err)
			return 0
		}
		return 1
	}
}

// stopped freezes the database server.
func stopped(server *testserver.Server) func(*world, *rand.Rand) int {
	return func(w *world, r *rand.Rand) int {
		if err := server.Signal(syscall.SIGSTOP); err != nil {
			w.tb.Error(err)
			return 0
		}
		within(r, 2*w.Lease)
		if err := server.Signal(syscall.SIGCONT); err != nil {
			w.tb.Error(err)
		}
		return 1
	}
}

// terminated ends half of the backends of the servers.
func terminated(db *sql.DB) func(*world, *rand.Rand) int {
	return func(w *world, _ *rand.Rand) int {
		ctx, cancel := context.WithTimeout(w.tb.Context(), patience)
		defer cancel()
		var n int
		err := db.QueryRowContext(ctx, `SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid() AND random() < 0.5`).Scan(&n)
		if err != nil { // this connection was of a server that was restarted
			return 0
		}
		return n
	}
}
