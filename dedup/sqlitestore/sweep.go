package sqlitestore

import (
	"context"
	"errors"
	"time"
)

const (
	sweepBatch    = 100                    // rows that one turn deletes
	sweepPatience = 250 * time.Millisecond // for the writer to be free, before standing in line
	sweepPoll     = 5 * time.Millisecond   // between two looks whether it is free

	// After each turn the sweep pauses for sweepRest times as long as the turn
	// took, so that it gets a quarter of the writer at most. That is more than
	// what deleting costs next to what executing did.
	sweepRest = 3
)

// sweepLoop deletes expired records until the store is closed.
func (s *Store) sweepLoop() {
	ticker := time.NewTicker(s.sweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-s.stop:
			return
		}
		if err := s.sweep(s.life); err != nil && !errors.Is(err, ErrClosed) && s.life.Err() == nil {
			s.logger.Warn("sqlitestore: sweep failed", "error", err)
		}
	}
}

// sweep deletes what has expired by now, a batch at a time. It waits for
// moments in which the writer is free, until none comes: then there is so much
// to do that it would fall behind, and it stands in line like everybody.
func (s *Store) sweep(ctx context.Context) error {
	patience := sweepPatience
	for {
		left, err := s.reader.anyExpired(ctx, s.now().UnixMicro())
		if err != nil || !left {
			return err
		}
		free, err := s.acquirePatiently(ctx, patience)
		if err != nil {
			return err
		}
		if !free {
			patience = 0
		}
		began := time.Now()
		if err := s.sweepBatch(ctx); err != nil {
			return err
		}
		if err := pause(ctx, s.stop, sweepRest*time.Since(began)); err != nil {
			return err
		}
	}
}

// sweepBatch deletes one batch and passes the turn, which the caller has.
func (s *Store) sweepBatch(ctx context.Context) error {
	defer s.pass()
	if err := s.begin(ctx); err != nil {
		return err
	}
	deleted, err := s.writer.sweep(s.now().UnixMicro(), sweepBatch)
	s.group.swept = s.group.swept || deleted > 0
	s.stats.swept.Add(uint64(deleted))
	return err
}

// acquirePatiently waits for a moment in which nobody wants the writer, and
// takes a place in the line where none comes. It says which it was.
func (s *Store) acquirePatiently(ctx context.Context, patience time.Duration) (free bool, err error) {
	for began := time.Now(); time.Since(began) < patience; {
		if s.turns.tryAcquire() {
			return true, nil
		}
		if err := pause(ctx, s.stop, sweepPoll); err != nil {
			return false, err
		}
	}
	return false, s.turns.acquire(ctx)
}
