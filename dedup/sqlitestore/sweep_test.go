package sqlitestore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
)

// fill records n operations that expire after a second, and "kept".
func fill(t *testing.T, s *Store, n int) {
	t.Helper()
	mustComplete(t, take(t, bounded(t), s, "kept"), "kept")
	_, err := s.DB().Exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO retrysafe_outcome
			(scope, method, id, fingerprint_version, fingerprint, fence, recorded_at, expires_at, record)
		SELECT 'tenant', 'm', i, 1, x'00', 1, ?, ?, x'' FROM n`,
		n, s.now().UnixMicro(), s.now().Add(time.Second).UnixMicro())
	if err != nil {
		t.Fatal(err)
	}
}

func countRows(t *testing.T, s *Store) (n int) {
	t.Helper()
	if err := s.DB().QueryRow(`SELECT count(*) FROM retrysafe_outcome`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Sweeping deletes what has expired, in bounded batches, and nothing else.
func TestSweep(t *testing.T) {
	clock := newClock()
	s := open(t, withClock(clock), WithSweepInterval(time.Hour))
	n := 2*sweepBatch + 1
	fill(t, s, n)
	if err := s.sweep(bounded(t)); err != nil || countRows(t, s) != n+1 {
		t.Fatalf("swept what has not expired: %d rows, %v", countRows(t, s), err)
	}
	clock.move(2 * time.Second)
	if err := errors.Join(s.turns.acquire(bounded(t)), s.sweepBatch(bounded(t))); err != nil || countRows(t, s) != n+1-sweepBatch {
		t.Errorf("one turn: %d rows left, %v; want %d", countRows(t, s), err, n+1-sweepBatch)
	}
	if err := s.sweep(bounded(t)); err != nil || countRows(t, s) != 1 {
		t.Errorf("%d rows left, %v; want 1", countRows(t, s), err)
	}
	if got := s.Stats().Swept; got != uint64(n) {
		t.Errorf("%d swept, want %d", got, n)
	}
	wantState(t, s, "kept", dedup.Completed)
}

// The store sweeps by itself, and does not wait in the way of executions.
func TestSweepInTheBackground(t *testing.T) {
	clock := newClock()
	s := open(t, withClock(clock), WithSweepInterval(time.Millisecond))
	fill(t, s, 3*sweepBatch)
	c := take(t, bounded(t), s, "a")
	clock.move(2 * time.Second)
	mustComplete(t, c, "paid")
	eventually(t, "the sweep", func() bool { return countRows(t, s) == 2 })
	wantState(t, s, "kept", dedup.Completed)
}

// Where the writer is never free, a sweep takes its turn in the line, and what
// it deletes is committed with the group.
func TestSweepStandsInLine(t *testing.T) {
	clock := newClock()
	s := open(t, withClock(clock), WithSweepInterval(time.Hour), wide())
	fill(t, s, 5)
	clock.move(2 * time.Second)
	gate := take(t, bounded(t), s, "gate")
	swept := make(chan error, 1)
	go func() { swept <- s.sweep(bounded(t)) }()
	eventually(t, "a place in the line", func() bool { return s.Stats().Waiting == 1 })
	if err := gate.Complete(bounded(t), dedup.Completion{Retention: 24 * time.Hour}); err != nil {
		t.Fatal(err)
	}
	if err := <-swept; err != nil || countRows(t, s) != 2 {
		t.Errorf("%d rows left, %v; want 2", countRows(t, s), err)
	}
	if n := s.Stats().Commits; n != 2 {
		t.Errorf("%d commits, want 2", n)
	}
}

// A sweep that cannot have the writer gives up with its context.
func TestSweepGivesUp(t *testing.T) {
	clock := newClock()
	s := open(t, withClock(clock), WithSweepInterval(time.Hour))
	fill(t, s, 5)
	clock.move(2 * time.Second)
	take(t, bounded(t), s, "gate")
	ctx, cancel := context.WithTimeout(bounded(t), 20*time.Millisecond)
	defer cancel()
	wantError(t, "sweep", s.sweep(ctx), context.DeadlineExceeded)
}
