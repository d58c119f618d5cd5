package sqlitestore

import (
	"sync/atomic"
	"time"
)

// Stats is what a [Store] has done since it was opened.
type Stats struct {
	// Recorded counts the outcomes that were committed, and Commits the
	// commits that made them durable: the more outcomes share a commit, the
	// further Commits stays behind.
	Recorded, Commits uint64
	// Swept counts the expired records that were deleted.
	Swept uint64
	// Waiting is how many callers are in line for the writer now.
	Waiting int
	// Executions counts the claims that were settled. WriterHeld is how long
	// they held the writer, all together, and LongestHeld the longest of them:
	// for as long everybody else had to wait.
	Executions              uint64
	WriterHeld, LongestHeld time.Duration
}

// Stats returns what the store has done. It is cheap.
func (s *Store) Stats() Stats {
	return Stats{
		Recorded:    s.stats.recorded.Load(),
		Commits:     s.stats.commits.Load(),
		Swept:       s.stats.swept.Load(),
		Waiting:     s.turns.waiting(),
		Executions:  s.stats.executions.Load(),
		WriterHeld:  time.Duration(s.stats.held.Load()),
		LongestHeld: time.Duration(s.stats.longest.Load()),
	}
}

type counters struct {
	recorded, commits, swept, executions atomic.Uint64
	held, longest                        atomic.Int64
}

// heldFor is called by whoever has the turn, one at a time.
func (c *counters) heldFor(d time.Duration) {
	c.executions.Add(1)
	c.held.Add(int64(d))
	c.longest.Store(max(c.longest.Load(), int64(d)))
}
