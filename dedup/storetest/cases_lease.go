package storetest

import (
	"errors"

	"github.com/retrysafe/retrysafe/dedup"
)

// careful is a request that does not take over.
func careful(key dedup.Key) dedup.ClaimRequest {
	req := request(key)
	req.Takeover = false
	return req
}

// lapsed makes a claim whose lease has ended.
func (s *suite) lapsed(key dedup.Key) dedup.Claim {
	s.Helper()
	req := request(key)
	req.Lease = s.short()
	claim := s.claim(s.First, req)
	s.wantState(s.awaitEnd(s.Second, careful(key), dedup.InProgress).Answer, dedup.Unknown)
	return claim
}

// overtaken makes a claim whose lease has ended and the claim that took over.
func (s *suite) overtaken(key dedup.Key) (stale, successor dedup.Claim) {
	s.Helper()
	return s.lapsed(key), s.claim(s.Second, request(key))
}

func takeover(s *suite) {
	key := newKey()
	req := request(key)
	req.Lease = s.short()
	var first dedup.Claim
	start := timed(func() { first = s.claim(s.First, req) })
	end := s.awaitEnd(s.Second, request(key), dedup.InProgress)
	s.wantState(end.Answer, dedup.Claimed)
	s.wantLasted("lease", start, end, req.Lease)
	if end.Claim.Fence() <= first.Fence() {
		s.Errorf("fence %d after fence %d", end.Claim.Fence(), first.Fence())
	}
	if end.Claim.Attempt() != 2 {
		s.Errorf("attempt %d, want 2", end.Claim.Attempt())
	}
	s.wantHeld(s.First, request(key))
	s.must("Complete", complete(end.Claim, recorded("paid")))
	s.wantRecord(key, []byte("paid"))
}

func oneTakeover(s *suite) {
	key := newKey()
	stale := s.lapsed(key)
	winner := race(s, func() dedup.ClaimRequest { return request(key) })
	if winner.Fence() <= stale.Fence() {
		s.Errorf("fence %d after fence %d", winner.Fence(), stale.Fence())
	}
	s.mustLose("stale Complete", complete(stale, recorded("stale")))
	s.must("Complete", complete(winner, recorded("paid")))
	s.wantRecord(key, []byte("paid"))
}

func unknownWithoutTakeover(s *suite) {
	key := newKey()
	req := request(key)
	req.Lease = s.short()
	var first dedup.Claim
	start := timed(func() { first = s.claim(s.First, req) })
	end := s.awaitEnd(s.Second, careful(key), dedup.InProgress)
	s.wantState(end.Answer, dedup.Unknown)
	s.wantLasted("lease", start, end, req.Lease)
	s.sleepPast(interval{after: end.seenOver}, s.short())
	for _, store := range s.both() {
		s.wantState(s.ask(store, careful(key)), dedup.Unknown)
	}
	successor := s.claim(s.Second, request(key))
	if successor.Fence() <= first.Fence() || successor.Attempt() != 2 {
		s.Errorf("fence %d and attempt %d after fence %d and attempt 1",
			successor.Fence(), successor.Attempt(), first.Fence())
	}
}

// wantUnharmed fails the case where a claim is not as it was when it was made.
func (s *suite) wantUnharmed(key dedup.Key, claim dedup.Claim) {
	s.Helper()
	for _, store := range s.both() {
		answer := s.wantHeld(store, request(key))
		if answer.LeaseLeft != 0 && answer.LeaseLeft < long-patience {
			s.Errorf("%s: %v of the new owner's lease is left", store.name, answer.LeaseLeft)
		}
	}
	s.must("new owner's Renew", renew(claim, long))
	s.must("new owner's Complete", complete(claim, recorded("new")))
	s.wantRecord(key, []byte("new"))
}

func staleComplete(s *suite) {
	key := newKey()
	stale, successor := s.overtaken(key)
	s.mustLose("stale Complete", complete(stale, recorded("stale")))
	s.wantUnharmed(key, successor)
	s.mustLose("stale Complete after the new owner's", complete(stale, recorded("stale")))
	s.wantRecord(key, []byte("new"))
}

func staleRenew(s *suite) {
	key := newKey()
	stale, successor := s.overtaken(key)
	s.mustLose("stale Renew", renew(stale, s.short()))
	s.wantUnharmed(key, successor)
}

func staleRelease(s *suite) {
	key := newKey()
	stale, successor := s.overtaken(key)
	s.mustLose("stale Release", stale.Release)
	s.wantUnharmed(key, successor)
	s.mustLose("stale Release after the new owner's Complete", stale.Release)
	s.wantRecord(key, []byte("new"))
}

func staleAfterRelease(s *suite) {
	key := newKey()
	stale, successor := s.overtaken(key)
	s.must("new owner's Release", successor.Release)
	s.mustLose("stale Complete", complete(stale, recorded("stale")))
	s.mustLose("stale Renew", renew(stale, long))
	third := s.claim(s.First, careful(key))
	if third.Fence() <= successor.Fence() {
		s.Errorf("fence %d after fence %d", third.Fence(), successor.Fence())
	}
}

// staleRepeat: an owner that was overtaken asks again.
func staleRepeat(s *suite) {
	key := newKey()
	req := request(key)
	req.Lease = s.short()
	s.claim(s.First, req)
	successor := s.awaitEnd(s.Second, request(key), dedup.InProgress)
	s.wantState(successor.Answer, dedup.Claimed)
	for _, store := range s.both() {
		s.wantState(s.ask(store, req), dedup.InProgress)
	}
	s.wantUnharmed(key, successor.Claim)
}

func lateComplete(s *suite) {
	key := newKey()
	s.must("Complete after the lease", complete(s.lapsed(key), recorded("late")))
	s.wantRecord(key, []byte("late"))
}

func lateRenew(s *suite) {
	key := newKey()
	claim := s.lapsed(key)
	s.must("Renew after the lease", renew(claim, long))
	s.wantHeld(s.Second, request(key))
	s.must("Complete", complete(claim, recorded("paid")))
}

func lateRelease(s *suite) {
	key := newKey()
	claim := s.lapsed(key)
	s.must("Release after the lease", claim.Release)
	if next := s.claim(s.Second, careful(key)); next.Fence() <= claim.Fence() {
		s.Errorf("fence %d after fence %d", next.Fence(), claim.Fence())
	}
}

// lateOrTakeover: of an owner that completes late and one that takes over at
// the same time, one succeeds.
func lateOrTakeover(s *suite) {
	const rounds = 16
	keys := make([]dedup.Key, rounds)
	late := make([]dedup.Claim, rounds)
	for i := range keys {
		keys[i] = newKey()
		req := request(keys[i])
		req.Lease = s.shortest()
		late[i] = s.claim(s.First, req)
	}
	for _, key := range keys {
		s.awaitEnd(s.Second, careful(key), dedup.InProgress)
	}
	for i, key := range keys {
		ctx, cancel := s.bounded()
		racers := crowd(2, func(racer int) claimed {
			if racer == 0 {
				return claimed{err: late[i].Complete(ctx, recorded("late"))}
			}
			answer, err := s.try(ctx, s.Second, request(key))
			return claimed{answer, err}
		})
		cancel()
		completed, taken := racers[0].err, racers[1]
		switch {
		case taken.err != nil:
			s.Fatal(taken.err)
		case taken.answer.State == dedup.Completed && completed == nil:
			s.wantRecord(key, []byte("late"))
		case taken.answer.State == dedup.Claimed && errors.Is(completed, dedup.ErrLeaseLost):
			s.wantUnharmed(key, taken.answer.Claim)
		default:
			s.Fatalf("the late owner's Complete: error %v, while the other's Claim answered %v",
				completed, taken.answer.State)
		}
	}
}

func renewal(s *suite) {
	key := newKey()
	req := request(key)
	req.Lease = s.short()
	var claim dedup.Claim
	start := timed(func() { claim = s.claim(s.First, req) })
	s.must("Renew", renew(claim, long))
	s.sleepPast(start, req.Lease)
	for _, store := range s.both() {
		s.wantHeld(store, request(key))
	}

	// The lease counts from now, so that it can also become shorter.
	start = timed(func() { s.must("Renew", renew(claim, 2*s.short())) })
	end := s.awaitEnd(s.Second, request(key), dedup.InProgress)
	s.wantState(end.Answer, dedup.Claimed)
	s.wantLasted("renewed lease", start, end, 2*s.short())
	if end.Claim.Attempt() != 2 {
		s.Errorf("attempt %d after one claim and two renewals, want 2", end.Claim.Attempt())
	}
}

func renewalBesideCompletion(s *suite) {
	for range 8 {
		key := newKey()
		claim := s.claim(s.First, request(key))
		ctx, cancel := s.bounded()
		errs := crowd(4, func(i int) error {
			if i == 0 {
				return claim.Complete(ctx, recorded("paid"))
			}
			return claim.Renew(ctx, long)
		})
		cancel()
		for i, err := range errs {
			if err != nil && (i == 0 || !errors.Is(err, dedup.ErrLeaseLost)) {
				s.Fatalf("Complete and Renew at once: %v", err)
			}
		}
		s.wantRecord(key, []byte("paid"))
	}
}

// renewalOfSettled: a renewal that comes late changes nothing.
func renewalOfSettled(s *suite) {
	key := newKey()
	claim := s.claim(s.First, request(key))
	c := recorded("paid")
	c.Retention = s.short()
	start := timed(func() { s.must("Complete", complete(claim, c)) })
	if err := s.settle(renew(claim, long)); err != nil && !errors.Is(err, dedup.ErrLeaseLost) {
		s.Fatalf("Renew of a completed claim: %v", err)
	}
	end := s.awaitEnd(s.Second, request(key), dedup.Completed)
	s.wantState(end.Answer, dedup.Claimed)
	s.wantLasted("retention", start, end, c.Retention)

	s.must("Release", end.Claim.Release)
	s.mustLose("Renew of a released claim", renew(end.Claim, long))
	s.claim(s.First, careful(key))
}

// risingFence alternates takeover and release.
func risingFence(s *suite) {
	key := newKey()
	var fence uint64
	for attempt := 1; attempt <= 4; attempt++ {
		req := request(key)
		req.Lease = s.short()
		end := s.awaitEnd(s.either(attempt), req, dedup.InProgress)
		s.wantState(end.Answer, dedup.Claimed)
		if end.Claim.Fence() <= fence {
			s.Fatalf("fence %d after fence %d", end.Claim.Fence(), fence)
		}
		if end.Claim.Attempt() != attempt {
			s.Errorf("attempt %d, want %d", end.Claim.Attempt(), attempt)
		}
		fence = end.Claim.Fence()
		if attempt%2 == 0 {
			s.must("Release", end.Claim.Release)
		}
	}
}

// outlivedLease is for stores whose claims are transactions: they last as long
// as those do, and a renewal does nothing.
func outlivedLease(s *suite) {
	key := newKey()
	req := request(key)
	req.Lease = s.shortest()
	var claim dedup.Claim
	start := timed(func() { claim = s.claim(s.First, req) })
	s.must("Renew", renew(claim, s.shortest()))
	s.sleepPast(start, 2*s.shortest())
	s.wantHeld(s.Second, request(key))
	s.must("Complete", complete(claim, recorded("paid")))
	s.wantRecord(key, []byte("paid"))
}
