package sqlitestore

import (
	"context"
	"fmt"

	"github.com/retrysafe/retrysafe/dedup"
)

// hold says that this process has an operation in hand: it executes it, or has
// recorded it in a transaction that is not committed.
type hold struct {
	key         dedup.Key
	fingerprint dedup.Fingerprint
	owner       dedup.Owner
	claim       *claim
	done        chan struct{} // closed once it is committed or given up
}

// held returns the hold on key, or nil.
func (s *Store) held(key dedup.Key) *hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holds[key]
}

// keep enters a hold.
func (s *Store) keep(h *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds[h.key] = h
}

// letGo ends holds and wakes those who wait for them.
func (s *Store) letGo(holds []*hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range holds {
		// A record that expires before it is committed may have been followed
		// by another claim.
		if s.holds[h.key] == h {
			delete(s.holds, h.key)
		}
		close(h.done)
	}
}

// answer is what a request is told while h is held. InProgress is worth
// waiting for something better.
func (h *hold) answer(req *dedup.ClaimRequest) dedup.Answer {
	switch {
	case h.fingerprint != req.Fingerprint:
		return dedup.Answer{State: dedup.Reused, Fingerprint: h.fingerprint}
	case h.owner == req.Owner && !h.claim.over.Load():
		return dedup.Answer{State: dedup.Claimed, Claim: h.claim}
	}
	return dedup.Answer{State: dedup.InProgress}
}

// Wait implements [dedup.Waiter]. It knows of the claims of this process, and
// returns nil at once for those of another.
func (s *Store) Wait(ctx context.Context, key dedup.Key) error {
	h := s.held(key)
	if h == nil {
		return nil
	}
	select {
	case <-h.done:
		return nil
	case <-s.stop:
		return ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("sqlitestore: wait: %w", ctx.Err())
	}
}
