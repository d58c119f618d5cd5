package redisstore

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
)

const (
	// pollInterval is when a waiter that was not woken looks for itself: a
	// message may be lost with the connection.
	pollInterval = time.Second
	// deafInterval is that while nobody listens.
	deafInterval = 100 * time.Millisecond
	// markLifetime is how long an operation stays marked as waited for. Whoever
	// still waits then has marked it again.
	markLifetime = 5 * pollInterval
)

// Wait implements [dedup.Waiter]. It returns after a second at the latest.
func (s *Store) Wait(ctx context.Context, key dedup.Key) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	n := s.names(key)
	woken, interval, cancel := s.listener.subscribe(n.digest)
	defer cancel()
	// Looked at after subscribing, so that no wake-up falls between.
	left, err := s.run(ctx, watchScript, []string{n.operation, n.waiting}, decimal(millis(markLifetime)))
	if err != nil {
		return explain("wait", err)
	}
	if left == 0 {
		return nil
	}
	timer := time.NewTimer(min(duration(left), interval/2+rand.N(interval/2)))
	defer timer.Stop()
	select {
	case <-woken:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
