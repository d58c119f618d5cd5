package sqlitestore

import (
	"context"
	"errors"
	"time"
)

const (
	sweepBatch    = 200                    // rows that one turn deletes
	sweepPause    = 5 * time.Millisecond   // between two batches
	sweepPatience = 250 * time.Millisecond // for the writer to be free, before standing in line
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

// sweep deletes what has expired by now, a batch at a time.
func (s *Store) sweep(ctx context.Context) error {
	for {
		left, err := s.reader.anyExpired(ctx, s.now().UnixMicro())
		if err != nil || !left {
			return err
		}
		if err := s.sweepTurn(ctx); err != nil {
			return err
		}
		if err := pause(ctx, s.stop, sweepPause); err != nil {
			return err
		}
	}
}

// sweepTurn deletes one batch.
func (s *Store) sweepTurn(ctx context.Context) error {
	if err := s.acquirePatiently(ctx); err != nil {
		return err
	}
	if err := s.begin(ctx); err != nil {
		s.pass()
		return err
	}
	deleted, err := s.writer.sweep(s.now().UnixMicro(), sweepBatch)
	s.group.swept = s.group.swept || deleted > 0
	s.stats.swept.Add(uint64(deleted))
	s.pass()
	return err
}

// acquirePatiently waits for a moment in which nobody wants the writer, and
// takes a place in the line where none comes.
func (s *Store) acquirePatiently(ctx context.Context) error {
	for since := time.Now(); time.Since(since) < sweepPatience; {
		if s.turns.tryAcquire() {
			return nil
		}
		if err := pause(ctx, s.stop, sweepPause); err != nil {
			return err
		}
	}
	return s.turns.acquire(ctx)
}
