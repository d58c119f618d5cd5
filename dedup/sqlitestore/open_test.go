package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
)

func TestOpenReportsEveryMistake(t *testing.T) {
	err := openError("", WithGroupLimit(-1, -time.Second), WithReaders(-2), WithSweepInterval(-time.Minute), nil)
	if err == nil {
		t.Fatal("it went through")
	}
	for _, says := range []string{"path is empty", "WithGroupLimit: -1 records", "WithGroupLimit: a delay of -1s", "WithReaders: -2", "WithSweepInterval: -1m0s"} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("error %q does not say %q", err, says)
		}
	}
	if _, err := New(bounded(t), nil, WithReaders(-2)); err == nil ||
		!strings.Contains(err.Error(), "WithReaders") || !strings.Contains(err.Error(), "nil") {
		t.Errorf("New: error %v, want both mistakes", err)
	}
}

func TestPathsThatOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("this is no database\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"none":          "",
		"memory":        ":memory:",
		"a URI":         "file:x.db",
		"a zero byte":   "x\x00.db",
		"a directory":   dir,
		"no such place": filepath.Join(dir, "absent", "x.db"),
		"another file":  text,
	} {
		if err := openError(path); err == nil || !strings.HasPrefix(err.Error(), "sqlitestore: ") {
			t.Errorf("%s: error %v, want one of the package's", name, err)
		}
	}
	if got, err := os.ReadFile(text); err != nil || !strings.HasPrefix(string(got), "this is no database") {
		t.Error("a file that is no database was changed")
	}
}

// A file's name is taken as it is.
func TestAwkwardPaths(t *testing.T) {
	for _, name := range []string{"a b.db", "a?mode=memory", "a#b%20c.db", "ü.db", "it's.db"} {
		path := filepath.Join(t.TempDir(), name)
		openAt(t, path)
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestConnectionsOfOpen(t *testing.T) {
	s := open(t)
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1"} {
		var got string
		if err := s.DB().QueryRow(`PRAGMA ` + pragma).Scan(&got); err != nil || got != want {
			t.Errorf("a reader's %s: %q, %v; want %q", pragma, got, err, want)
		}
		c := take(t, bounded(t), s, pragma)
		ctx, tx := handler(t, c)
		if err := tx.QueryRowContext(ctx, `PRAGMA `+pragma).Scan(&got); err != nil || got != want {
			t.Errorf("the writer's %s: %q, %v; want %q", pragma, got, err, want)
		}
		if err := c.Release(bounded(t)); err != nil {
			t.Fatal(err)
		}
	}
}

// Close commits what is recorded, undoes what is under way and sends away
// those who wait.
func TestClose(t *testing.T) {
	path := databasePath(t)
	s := openAt(t, path, wide())
	gate := take(t, bounded(t), s, "gate")
	mustWrite(t, gate, "gate")
	under, running := make(chan dedup.Claim, 1), make(chan error, 1)
	first := inLine(t, s, func(ctx context.Context) error {
		if err := write(ctx, "under way"); err != nil {
			return err
		}
		under <- linkFrom(ctx).claim
		running <- run(ctx, endless)
		return nil
	})
	waits := inLineFrom(t, s, 1, nothing)
	recordedGate := make(chan error, 1)
	go func() { recordedGate <- gate.Complete(bounded(t), recorded("open")) }()
	held := <-under
	eventually(t, "the statement under way", func() bool {
		idle := s.writer.mu.TryLock()
		if idle {
			s.writer.mu.Unlock()
		}
		return !idle
	})
	waiting := make(chan error, 1)
	go func() { waiting <- s.Wait(bounded(t), keyOf("line 0")) }()

	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if err := <-recordedGate; err != nil {
		t.Errorf("what was recorded: %v", err)
	}
	wantError(t, "the statement under way", <-running, context.Canceled)
	wantError(t, "the execution under way", <-first[0], dedup.ErrLeaseLost)
	wantError(t, "its Release", held.Release(bounded(t)), ErrClosed)
	wantError(t, "its transaction", write(held.Context(bounded(t)), "stray"), sql.ErrTxDone)
	wantError(t, "the one in line", <-waits[0], ErrClosed)
	wantError(t, "the one who waits", <-waiting, ErrClosed)
	_, err := s.Claim(bounded(t), request("late"))
	wantError(t, "Claim", err, ErrClosed)

	again := openAt(t, path)
	wantEffects(t, again, "gate")
	wantState(t, again, "gate", dedup.Completed)
	wantState(t, again, "line 0", dedup.Claimed)
}

// Whoever claims while the store is closed gets an answer that holds.
func TestCloseWhileClaiming(t *testing.T) {
	for range 10 {
		path := databasePath(t)
		s := openAt(t, path)
		const callers = 8
		done := make(chan []string, callers)
		for c := range callers {
			go func() {
				var kept []string
				for i := 0; ; i++ {
					id := string(rune('a'+c)) + strings.Repeat("x", i)
					err := executeOnce(bounded(t), s, id, nil)
					if err == nil {
						kept = append(kept, id)
						continue
					}
					if !errors.Is(err, ErrClosed) && !errors.Is(err, sql.ErrTxDone) && !errors.Is(err, ErrRolledBack) {
						t.Errorf("error %v, want ErrClosed", err)
					}
					done <- kept
					return
				}
			}()
		}
		eventually(t, "an outcome", func() bool { return s.Stats().Recorded > 0 })
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		again := openAt(t, path)
		total := 0
		for range callers {
			for _, id := range <-done {
				total++
				wantState(t, again, id, dedup.Completed)
			}
		}
		if got, err := effects(bounded(t), again); err != nil || len(got) != total {
			t.Errorf("%d effects, %v; %d were acknowledged", len(got), err, total)
		}
	}
}

// A writer whose connection is broken is replaced.
func TestWriterIsReplaced(t *testing.T) {
	s := open(t)
	mustComplete(t, take(t, bounded(t), s, "a"), "paid")
	broken := s.writer
	fails, _, err := broken.raw.Prepare(`SELECT abs(-9223372036854775808)`) // overflows
	if err != nil {
		t.Fatal(err)
	}
	defer fails.Close()
	broken.own[`BEGIN IMMEDIATE`] = fails
	if _, err := s.Claim(bounded(t), request("b")); err == nil {
		t.Fatal("a claim on a broken writer went through")
	}
	if s.writer == broken {
		t.Error("the broken writer is kept")
	}
	wantState(t, s, "a", dedup.Completed)
	wantState(t, s, "b", dedup.Claimed)
}
