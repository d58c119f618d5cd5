package storetest

import "github.com/retrysafe/retrysafe/dedup"

// wantReused asks for key with other fingerprints, as a newcomer and as owner,
// with and without takeover.
func (s *suite) wantReused(key dedup.Key, owner dedup.Owner) {
	s.Helper()
	newer := fingerprint
	newer.Version++
	last := fingerprint
	last.Sum[len(last.Sum)-1]++
	for _, store := range s.both() {
		for _, other := range []dedup.Fingerprint{another, newer, last} {
			for _, takeover := range []bool{false, true} {
				for _, who := range []dedup.Owner{owner, newOwner()} {
					req := request(key)
					req.Fingerprint, req.Takeover, req.Owner = other, takeover, who
					answer := s.ask(store, req)
					if answer.State != dedup.Reused {
						s.Fatalf("%s: claim with another fingerprint: answered %v, want %v",
							store.name, answer.State, dedup.Reused)
					}
					if answer.Fingerprint != fingerprint {
						s.Fatalf("%s: claim with another fingerprint: answered with %v, want the first one's %v",
							store.name, answer.Fingerprint, fingerprint)
					}
				}
			}
		}
	}
}

func reusedWhileHeld(s *suite) {
	req := request(newKey())
	claim := s.claim(s.First, req)
	s.wantReused(req.Key, req.Owner)
	s.wantHeld(s.Second, request(req.Key))
	s.must("Complete", complete(claim, recorded("paid")))
	s.wantRecord(req.Key, []byte("paid"))
}

// reusedWhileOpen: what an open transaction was asked for may not be seen by
// another, but nobody else gets the claim.
func reusedWhileOpen(s *suite) {
	req := request(newKey())
	claim := s.claim(s.First, req)
	for _, store := range s.both() {
		other := request(req.Key)
		other.Fingerprint = another
		answer, err := s.tryFor(briefly, store, other)
		if err == nil && answer.State != dedup.InProgress && answer.State != dedup.Reused {
			s.Fatalf("%s: claim with another fingerprint: answered %v, want %v or %v",
				store.name, answer.State, dedup.Reused, dedup.InProgress)
		}
	}
	s.must("Complete", complete(claim, recorded("paid")))
	s.wantRecord(req.Key, []byte("paid"))
}

func reusedWhenCompleted(s *suite) {
	req := request(newKey())
	s.must("Complete", complete(s.claim(s.First, req), recorded("paid")))
	s.wantReused(req.Key, req.Owner)
	s.wantRecord(req.Key, []byte("paid"))
}

func reusedWhenUnsettled(s *suite) {
	req := request(newKey())
	req.Lease = s.short()
	first := s.claim(s.First, req)
	careful := request(req.Key)
	careful.Takeover = false
	s.wantState(s.awaitEnd(s.Second, careful, dedup.InProgress).Answer, dedup.Unknown)

	s.wantReused(req.Key, req.Owner)
	s.wantState(s.ask(s.First, careful), dedup.Unknown)
	successor := s.claim(s.Second, request(req.Key))
	if successor.Attempt() != first.Attempt()+1 {
		s.Errorf("attempt %d after one claim, want %d", successor.Attempt(), first.Attempt()+1)
	}
	s.wantReused(req.Key, req.Owner)
}

// uncompared: the zero fingerprint is a value like any other to a repeat of
// its own kind.
func uncompared(s *suite) {
	req := request(newKey())
	req.Fingerprint = dedup.Fingerprint{}
	s.must("Complete", complete(s.claim(s.First, req), recorded("paid")))
	req.Owner = newOwner()
	s.wantState(s.ask(s.Second, req), dedup.Completed)
}
