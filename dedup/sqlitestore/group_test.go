package sqlitestore

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/retrysafe/retrysafe/dedup"
)

const keepLong = time.Hour

// wide is a group limit that no test reaches by accident.
func wide() Option { return WithGroupLimit(1000, time.Hour) }

func nothing(context.Context) error { return nil }

func writes(marker string) func(context.Context) error {
	return func(ctx context.Context) error { return write(ctx, marker) }
}

// Nobody is answered before the one commit that makes all answers true.
func TestOneCommitForThoseInLine(t *testing.T) {
	var s *Store
	var answered atomic.Int32
	early := make(chan int32, 16)
	s = open(t, wide(), withProbe(func(point string) {
		if point == "before commit" {
			early <- answered.Load()
		}
	}))
	gate := take(t, bounded(t), s, "gate")
	count := func(marker string) func(context.Context) error {
		return func(ctx context.Context) error {
			if n := answered.Load(); n != 0 {
				return errors.New("somebody was answered before the commit")
			}
			return write(ctx, marker)
		}
	}
	results := inLine(t, s, count("a"), count("b"), count("c"))
	done := make(chan error, 1)
	go func() { done <- gate.Complete(bounded(t), recorded("open")) }()
	for _, result := range append(results, done) {
		if err := <-result; err != nil {
			t.Error(err)
		}
		answered.Add(1)
	}
	if n := <-early; n != 0 {
		t.Errorf("%d were answered before the commit", n)
	}
	if stats := s.Stats(); stats.Commits != 1 || stats.Recorded != 4 || stats.Executions != 4 {
		t.Errorf("%+v, want 4 outcomes in 1 commit", stats)
	}
	wantEffects(t, s, "a", "b", "c")
}

// Of those in one group, each is undone alone.
func TestGroupMembersAreApart(t *testing.T) {
	s := open(t, wide())
	gate := take(t, bounded(t), s, "gate")
	results := inLine(t, s, writes("a"),
		func(ctx context.Context) error { return errors.Join(write(ctx, "b"), errors.New("no")) },
		writes("c"))
	mustWrite(t, gate, "gate")
	undone := recorded("refused")
	undone.Undo = true
	if err := gate.Complete(bounded(t), undone); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false, true} {
		if err := <-results[i]; (err == nil) != want {
			t.Errorf("%d: %v", i, err)
		}
	}
	wantEffects(t, s, "a", "c")
	wantState(t, s, "gate", dedup.Completed)
	wantState(t, s, "line 1", dedup.Claimed)
}

// Where the commit fails nobody in the group is told of success, duplicates
// included, and the store goes on.
func TestCommitFails(t *testing.T) {
	s := open(t, wide())
	gate := take(t, bounded(t), s, "gate")
	s.writer.raw.CommitHook(func() bool { return false })
	results := inLine(t, s, writes("a"), writes("b"))
	err := gate.Complete(bounded(t), recorded("open"))
	if err == nil {
		t.Error("Complete went through")
	}
	for i, result := range results {
		if err := <-result; !errors.Is(err, sqlite3.CONSTRAINT) {
			t.Errorf("member %d: error %v, want the commit's", i, err)
		}
	}
	if again := gate.Complete(bounded(t), recorded("open")); again == nil || again.Error() != err.Error() {
		t.Errorf("repeated, Complete returned %v, want %v", again, err)
	}
	wantEffects(t, s)
	for _, id := range []string{"gate", "line 0", "line 1"} {
		wantState(t, s, id, dedup.Claimed)
	}
	mustComplete(t, take(t, bounded(t), s, "after"), "paid")
	wantState(t, s, "after", dedup.Completed)
}

// Where SQLite rolls everything back because of one, all of the group learn.
func TestGroupIsLost(t *testing.T) {
	s := open(t, wide())
	gate := take(t, bounded(t), s, "gate")
	mustWrite(t, gate, "m")
	results := inLine(t, s, writes("a"), func(ctx context.Context) error {
		if run(ctx, `INSERT OR ROLLBACK INTO effect VALUES ('m')`) == nil {
			return errors.New("it went through")
		}
		return nil
	}, writes("c"))
	wantError(t, "the first", gate.Complete(bounded(t), recorded("open")), ErrRolledBack)
	wantError(t, "the second", <-results[0], ErrRolledBack)
	wantError(t, "the one that did it", <-results[1], ErrRolledBack)
	if err := <-results[2]; err != nil {
		t.Errorf("the one after: %v", err)
	}
	wantEffects(t, s, "c")
	for _, id := range []string{"gate", "line 0", "line 1"} {
		wantState(t, s, id, dedup.Claimed)
	}
}

// A duplicate of what is recorded but not committed waits for the commit.
func TestDuplicateInTheGroup(t *testing.T) {
	s := open(t, wide())
	gate := take(t, bounded(t), s, "gate")
	duplicate := make(chan dedup.State, 1)
	results := inLine(t, s, writes("a"), func(ctx context.Context) error {
		go func() {
			answer, err := s.Claim(bounded(t), request("line 0"))
			if err != nil {
				t.Error(err)
			}
			duplicate <- answer.State
		}()
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		answer, err := s.Claim(ended, request("line 0"))
		if err == nil && answer.State != dedup.InProgress {
			err = errors.New("answered " + answer.State.String() + " before the commit")
		}
		return err
	})
	mustComplete(t, gate, "open")
	for _, result := range results {
		if err := <-result; err != nil {
			t.Error(err)
		}
	}
	if state := <-duplicate; state != dedup.Completed {
		t.Errorf("the duplicate: %v, want %v", state, dedup.Completed)
	}
	if n := s.Stats().Commits; n != 1 {
		t.Errorf("%d commits, want 1", n)
	}
}

// A member whose context ends does not know, and says so; the others go on.
func TestMemberDoesNotWaitForEver(t *testing.T) {
	s := open(t, wide())
	gate := take(t, bounded(t), s, "gate")
	left := make(chan struct{})
	results := inLine(t, s, func(context.Context) error { <-left; return nil })
	ctx, cancel := context.WithTimeout(bounded(t), 20*time.Millisecond)
	defer cancel()
	wantError(t, "Complete", gate.Complete(ctx, recorded("open")), context.DeadlineExceeded)
	close(left)
	if err := <-results[0]; err != nil {
		t.Error(err)
	}
	mustComplete(t, gate, "open") // asked again, it knows by now
	wantState(t, s, "gate", dedup.Completed)
}

func TestGroupLimits(t *testing.T) {
	for _, tc := range []struct {
		name    string
		limit   Option
		handle  func(context.Context) error
		commits uint64
	}{
		{"a commit for each", WithGroupLimit(1, time.Hour), nothing, 4},
		{"two records", WithGroupLimit(2, time.Hour), nothing, 2},
		{"a delay", WithGroupLimit(1000, 10*time.Millisecond),
			func(context.Context) error { time.Sleep(11 * time.Millisecond); return nil }, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := open(t, tc.limit)
			gate := take(t, bounded(t), s, "gate")
			results := inLine(t, s, tc.handle, tc.handle, tc.handle)
			_ = tc.handle(context.Background()) // the gate's own
			mustComplete(t, gate, "open")
			for _, result := range results {
				if err := <-result; err != nil {
					t.Error(err)
				}
			}
			if n := s.Stats().Commits; n != tc.commits {
				t.Errorf("%d commits, want %d", n, tc.commits)
			}
		})
	}
}

// A transaction in which nothing was recorded leaves no trace in the file.
func TestReleaseDoesNotCommit(t *testing.T) {
	s := open(t)
	c := take(t, bounded(t), s, "a")
	mustWrite(t, c, "m")
	if err := c.Release(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if stats := s.Stats(); stats.Commits != 0 || stats.Executions != 1 {
		t.Errorf("%+v, want no commit", stats)
	}
	if s.writer.open() {
		t.Error("a transaction is still open")
	}
}

// One who leaves the line does not stop it.
func TestLeavingTheLine(t *testing.T) {
	s := open(t)
	gate := take(t, bounded(t), s, "gate")
	ctx, leave := context.WithCancel(bounded(t))
	left := make(chan error, 1)
	go func() {
		_, err := s.Claim(ctx, request("leaves"))
		left <- err
	}()
	eventually(t, "a place in the line", func() bool { return s.Stats().Waiting == 1 })
	results := inLineFrom(t, s, 1, writes("a"))
	leave()
	wantError(t, "the one who left", <-left, ErrBusy)
	mustComplete(t, gate, "open")
	if err := <-results[0]; err != nil {
		t.Error(err)
	}
}

func TestStatsTellWhoHeldTheWriter(t *testing.T) {
	s := open(t)
	c := take(t, bounded(t), s, "a")
	time.Sleep(5 * time.Millisecond)
	mustComplete(t, c, "paid")
	stats := s.Stats()
	if stats.LongestHeld < 5*time.Millisecond || stats.WriterHeld < stats.LongestHeld {
		t.Errorf("%+v, want at least 5 ms", stats)
	}
}

// What the log is told of holds no key, and none of what is recorded.
func TestLogTellsNoKeys(t *testing.T) {
	var b strings.Builder
	s := open(t, WithLogger(slog.New(slog.NewTextHandler(&b, nil))))
	c := take(t, bounded(t), s, "secret-key")
	s.writer.raw.CommitHook(func() bool { return false })
	if err := c.Complete(bounded(t), recorded("secret-record")); err == nil {
		t.Fatal("Complete went through")
	}
	c = take(t, bounded(t), s, "secret-key")
	mustWrite(t, c, "m")
	if err := run(c.Context(bounded(t)), `INSERT OR ROLLBACK INTO effect VALUES ('m')`); err == nil {
		t.Fatal("it went through")
	}
	wantError(t, "Complete", c.Complete(bounded(t), recorded("secret-record")), ErrRolledBack)
	log := b.String()
	for _, want := range []string{"commit failed", "transaction lost"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log does not say %q: %s", want, log)
		}
	}
	if strings.Contains(log, "secret") || strings.Contains(log, "tenant") {
		t.Errorf("the log tells too much: %s", log)
	}
}
