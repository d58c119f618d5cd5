package storetest

import (
	"github.com/retrysafe/retrysafe/dedup"
)

// restart drops the stores and goes on with new ones.
func (s *suite) restart() {
	s.Helper()
	s.First, s.Second = s.Restart(s.TB)
}

func durableRecord(s *suite) {
	key, brief := newKey(), newKey()
	s.must("Complete", complete(s.claim(s.First, request(key)), recorded("paid")))
	claim := s.claim(s.First, request(brief))
	retention := 2 * s.short()
	start := timed(func() { s.must("Complete", complete(claim, keptFor(retention))) })
	s.restart()
	s.wantRecord(key, []byte("paid"))
	s.wantReused(key, newOwner())
	s.wantForgotten(start, careful(brief), retention, dedup.Completed)
}

// durableClaim is for leased stores: a claim is the owner's, whatever becomes
// of the store that gave it.
func durableClaim(s *suite) {
	req := request(newKey())
	claim := s.claim(s.First, req)
	s.restart()
	s.wantHeld(s.Second, request(req.Key))
	again := s.claim(s.First, req)
	if again.Fence() != claim.Fence() {
		s.Errorf("fence %d of the repeated claim, want %d", again.Fence(), claim.Fence())
	}
	s.must("Complete", complete(again, recorded("paid")))
	s.wantRecord(req.Key, []byte("paid"))
}

func durableFence(s *suite) {
	key := newKey()
	claim := s.claim(s.First, request(key))
	s.must("Release", claim.Release)
	s.restart()
	if next := s.claim(s.Second, careful(key)); next.Fence() <= claim.Fence() {
		s.Errorf("fence %d after fence %d", next.Fence(), claim.Fence())
	}
}

// cutTransaction is for transactional stores: a process that dies takes its
// open transactions along.
func cutTransaction(s *suite) {
	key, lost, kept := newKey(), unique(), unique()
	claim := s.claim(s.First, request(key))
	s.write(claim, lost)
	handler := claim.Context(s.Context())
	s.restart()
	s.wantWritten(nil, []string{lost})

	next := s.claim(s.Second, careful(key))
	if next.Fence() <= claim.Fence() {
		s.Errorf("fence %d after fence %d", next.Fence(), claim.Fence())
	}
	s.mustNotWrite("after a restart", handler)
	s.mustRefuse("Complete after a restart", complete(claim, recorded("lost")))
	s.write(next, kept)
	s.must("Complete", complete(next, recorded("paid")))
	s.wantWritten([]string{kept}, []string{lost})
	s.wantRecord(key, []byte("paid"))
}
