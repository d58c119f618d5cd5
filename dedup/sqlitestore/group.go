package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/retrysafe/retrysafe/dedup"
)

// group is the open transaction and those whose answer its commit makes true.
// It belongs to whoever holds the turn; done and err to all.
type group struct {
	began   time.Time
	records int
	swept   bool
	holds   []*hold // of the records in it

	done chan struct{} // closed once it is committed or lost
	err  error         // to be read after done
}

// mayGrow says whether another execution may join.
func (g *group) mayGrow(c *config) bool {
	return g.records < c.groupRecords && time.Since(g.began) < c.groupDelay
}

// begin opens a transaction unless one is open. The caller has the turn.
func (s *Store) begin(ctx context.Context) error {
	if s.group != nil {
		return nil
	}
	if err := s.letOthers(ctx); err != nil {
		return err
	}
	for {
		err := s.tryBegin(ctx)
		if err == nil {
			s.group = &group{began: time.Now(), done: make(chan struct{})}
			return nil
		}
		if !errors.Is(err, sqlite3.BUSY) {
			s.dropWriter()
			return fmt.Errorf("sqlitestore: begin: %w", err)
		}
		s.contended = time.Now()
		if err := pause(ctx, s.stop, pollInterval()); err != nil {
			return busyError(err)
		}
	}
}

// tryBegin opens the writer too where it is not open.
func (s *Store) tryBegin(ctx context.Context) error {
	if s.writer == nil {
		w, err := openWriter(ctx, s.db)
		if err != nil {
			return err
		}
		s.writer = w
	}
	return s.writer.begin()
}

// pollInterval is the wait between two looks at a lock that another process
// has: around a millisecond, and never in step with it.
func pollInterval() time.Duration {
	return 500*time.Microsecond + rand.N(1500*time.Microsecond)
}

// letOthers leaves the lock free for a moment, longer than pollInterval, where
// another process has shown within a second that it wants it too.
func (s *Store) letOthers(ctx context.Context) error {
	if time.Since(s.contended) > time.Second {
		return nil
	}
	if err := pause(ctx, s.stop, 3*time.Millisecond); err != nil {
		return busyError(err)
	}
	return nil
}

func busyError(err error) error {
	if errors.Is(err, ErrClosed) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrBusy, err)
}

// pass ends the caller's turn. The next in line goes on in the open
// transaction if it may; otherwise the caller commits first.
func (s *Store) pass() {
	g := s.group
	switch {
	case g == nil:
	case !s.writer.open():
		s.group = nil
		s.lose(g)
	case g.mayGrow(&s.config) && s.next():
		return
	default:
		s.group = nil
		s.finish(g)
	}
	s.turns.release()
}

// next gives the turn to the next in line, and says whether there is one.
// Those who were answered together are likely to come back together: where the
// last commit served several, they get one chance to run and stand in line.
func (s *Store) next() bool {
	if s.turns.handOver() {
		return true
	}
	if !s.crowded {
		return false
	}
	runtime.Gosched()
	return s.turns.handOver()
}

// lose answers the members of a group that SQLite has rolled back.
func (s *Store) lose(g *group) {
	s.logger.Warn("sqlitestore: transaction lost", "records", g.records)
	s.answer(g, fmt.Errorf("%w by another execution in it", ErrRolledBack))
}

// finish commits what is in the group and answers its members.
func (s *Store) finish(g *group) {
	if g.records == 0 && !g.swept {
		s.writer.undo()
		s.answer(g, nil)
		return
	}
	s.crowded = g.records > 1
	s.probe("before commit")
	err := s.writer.commit()
	s.probe("after commit")
	if err == nil {
		s.stats.commits.Add(1)
		s.stats.recorded.Add(uint64(g.records))
		s.answer(g, nil)
		return
	}
	s.logger.Warn("sqlitestore: commit failed", "records", g.records, "error", err)
	if !errors.Is(err, sqlite3.FULL) {
		s.dropWriter()
	}
	s.answer(g, storeError("commit", err))
}

func (s *Store) answer(g *group, err error) {
	g.err = err
	s.letGo(g.holds)
	close(g.done)
}

// storeError says what SQLite's error means to the caller.
func storeError(op string, err error) error {
	switch {
	case errors.Is(err, sqlite3.FULL):
		return fmt.Errorf("sqlitestore: %s: %w: %w", op, dedup.ErrFull, err)
	case errors.Is(err, sqlite3.TOOBIG):
		return fmt.Errorf("sqlitestore: %s: %w: %w", op, dedup.ErrTooLarge, err)
	}
	return fmt.Errorf("sqlitestore: %s: %w", op, err)
}
