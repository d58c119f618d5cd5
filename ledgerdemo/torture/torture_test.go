package torture

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testserver"
)

func TestNoHistoryShowsASecondExecution(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, "sqlite", newRig(t, onSQLite, noBug))
		w.torture(*duration)
		w.judgeExactlyOnce()
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		w := newPostgresWorld(t, "postgres", onPostgres)
		w.torture(*duration)
		w.judgeExactlyOnce()
	})
	// A store with leases answers that the outcome is not known rather than
	// execute twice, where the method says so.
	t.Run("postgres leased, reject", func(t *testing.T) {
		t.Parallel()
		w := newPostgresWorld(t, "postgres leased, reject", leasedPostgres)
		w.strict()
		w.torture(*duration)
		w.judgeExactlyOnce()
	})
	t.Run("redis, reject", func(t *testing.T) {
		t.Parallel()
		w := newRedisWorld(t, "redis, reject")
		w.strict()
		w.torture(*duration)
		w.judgeExactlyOnce()
	})
}

func TestNoHistoryShowsTwoOutcomes(t *testing.T) {
	t.Run("postgres leased, reexecute", func(t *testing.T) {
		t.Parallel()
		w := newPostgresWorld(t, "postgres leased, reexecute", leasedPostgres)
		w.torture(*duration)
		w.judgeOneAnswer()
	})
	t.Run("redis, reexecute", func(t *testing.T) {
		t.Parallel()
		w := newRedisWorld(t, "redis, reexecute")
		w.torture(*duration)
		w.judgeOneAnswer()
	})
}

// newPostgresWorld has a database server of its own, which is restarted.
func newPostgresWorld(t *testing.T, name string, k kind) *world {
	t.Helper()
	server := testserver.StartPostgres(t)
	db, err := sql.Open("pgx", server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return newWorld(t, name, newRig(t, k, noBug, server),
		fault{"PostgreSQL backends terminated", terminated(db)},
		fault{"PostgreSQL restarted in immediate mode", restarted(server)})
}

// newRedisWorld has a Redis server of its own that loses nothing it has
// acknowledged when it is killed.
func newRedisWorld(t *testing.T, name string) *world {
	t.Helper()
	server := testserver.StartRedis(t, "appendonly yes", "appendfsync always")
	return newWorld(t, name, newRig(t, leasedRedis, noBug, server),
		fault{"Redis killed and restarted", restarted(server)},
		fault{"Redis frozen", stopped(server)})
}

// findExactlyOnce returns what shows that a key was executed twice, lost, or
// answered wrongly.
func (w *world) findExactlyOnce() []string {
	found := violations(exactlyOnceModel, byAccount, w.history)
	acknowledged := make(map[string]bool)
	for _, c := range w.history {
		if c.kind == done && c.key != "" {
			acknowledged[c.key] = true
		}
	}
	executions := w.executions()
	for key, n := range executions {
		if n > 1 {
			found = append(found, fmt.Sprintf("%s: stands in the ledger %d times", key, n))
		}
	}
	for key := range acknowledged {
		if executions[key] == 0 {
			found = append(found, fmt.Sprintf("%s: was acknowledged and does not stand in the ledger", key))
		}
	}
	return found
}

func (w *world) judgeExactlyOnce() {
	w.tb.Helper()
	w.judge(w.findExactlyOnce())
}

func (w *world) judgeOneAnswer() {
	w.tb.Helper()
	w.judge(violations(oneAnswerModel, byKey, w.history))
}

// judge fails the test where something was found, or too little was looked at
// to find anything.
func (w *world) judge(found []string) {
	w.tb.Helper()
	totals.history(len(w.history), len(found))
	var executed, replayed int
	for _, c := range w.history {
		executed += count(c.kind == done && c.key != "" && !c.replayed)
		replayed += count(c.replayed)
	}
	secrets, logged, tail := w.log.report()
	w.tb.Logf("%s: %d operations, %d executions and %d replays told, %d violations, %d bytes of logs, seed %d",
		w.name, len(w.history), executed, replayed, len(found), logged, *seed)
	if executed == 0 || replayed == 0 || logged == 0 {
		w.tb.Error("the history shows nothing")
	}
	for _, violation := range found {
		w.tb.Errorf("violation: %s", violation)
	}
	if secrets > 0 {
		w.tb.Errorf("keys or payloads are in the servers' logs, %d times", secrets)
	}
	if w.tb.Failed() {
		w.tb.Logf("the servers' logs end:\n%s", tail)
	}
}
