package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
)

// ended returns contexts that have ended, each in its own way.
func ended(s *suite) []context.Context {
	cancelled, cancel := context.WithCancel(s.Context())
	cancel()
	expired, cancel := context.WithDeadline(s.Context(), time.Now().Add(-time.Second))
	cancel()
	return []context.Context{cancelled, expired}
}

func (s *suite) mustEnd(ctx context.Context, what string, err error) {
	s.Helper()
	if !errors.Is(err, ctx.Err()) {
		s.Fatalf("%s: error %v, want %v", what, err, ctx.Err())
	}
}

func endedClaim(s *suite) {
	for _, ctx := range ended(s) {
		key := newKey()
		for _, store := range s.both() {
			other := request(key)
			other.Fingerprint = another
			_, err := s.try(ctx, store, other)
			s.mustEnd(ctx, store.name, err)
		}
		claim := s.claim(s.First, careful(key))
		if claim.Attempt() != 1 {
			s.Errorf("attempt %d after claims that were not to be, want 1", claim.Attempt())
		}
		s.must("Complete", complete(claim, recorded("paid")))
		s.wantRecord(key, []byte("paid"))
	}
}

func endedComplete(s *suite) {
	for _, ctx := range ended(s) {
		req := request(newKey())
		claim := s.claim(s.First, req)
		s.mustEnd(ctx, "Complete", claim.Complete(ctx, recorded("not to be")))
		claim = s.afterRefusal(claim, req)
		s.wantHeld(s.Second, request(req.Key))
		s.must("Complete", complete(claim, recorded("paid")))
		s.wantRecord(req.Key, []byte("paid"))
	}
}

func endedRelease(s *suite) {
	for _, ctx := range ended(s) {
		key := newKey()
		claim := s.claim(s.First, request(key))
		s.mustEnd(ctx, "Release", claim.Release(ctx))
		s.wantHeld(s.Second, request(key))
		s.must("Release", claim.Release)
		s.must("Release", s.claim(s.Second, careful(key)).Release)
	}
}

// endedTransaction: whatever a transactional store makes of a release that it
// is given no time for, the claim can be given up afterwards.
func endedTransaction(s *suite) {
	for _, ctx := range ended(s) {
		key := newKey()
		claim := s.claim(s.First, request(key))
		if err := claim.Release(ctx); err != nil {
			s.mustEnd(ctx, "Release", err)
		}
		s.must("Release", claim.Release)
		s.must("Release", s.claim(s.Second, careful(key)).Release)
	}
}

func endedRenew(s *suite) {
	for _, ctx := range ended(s) {
		req := request(newKey())
		req.Lease = s.short()
		var claim dedup.Claim
		start := timed(func() { claim = s.claim(s.First, req) })
		s.mustEnd(ctx, "Renew", claim.Renew(ctx, long))
		end := s.awaitEnd(s.Second, careful(req.Key), dedup.InProgress)
		s.wantState(end.Answer, dedup.Unknown)
		s.wantLasted("lease", start, end, req.Lease)
	}
}
