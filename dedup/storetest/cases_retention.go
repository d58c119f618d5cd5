package storetest

import (
	"context"
	"math"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
)

// wantForgotten asks until the operation is no longer in one of the states,
// which must be when d has passed since start, and checks that it is new then.
func (s *suite) wantForgotten(start interval, req dedup.ClaimRequest, d time.Duration, during ...dedup.State) {
	s.Helper()
	end := s.awaitEnd(s.Second, req, during...)
	s.wantState(end.Answer, dedup.Claimed)
	s.wantLasted("retention", start, end, d)
	if end.Claim.Attempt() != 1 {
		s.Errorf("attempt %d of an operation that is forgotten, want 1", end.Claim.Attempt())
	}
	s.must("Complete", complete(end.Claim, recorded("anew")))
	answer := s.ask(s.First, req)
	s.wantState(answer, dedup.Completed)
	if string(answer.Record) != "anew" {
		s.Errorf("record %q of an operation that executed anew", answer.Record)
	}
}

// keptFor is the completion of a record that is kept for a while.
func keptFor(retention time.Duration) dedup.Completion {
	return dedup.Completion{Record: []byte("paid"), Retention: retention}
}

// recordRetention holds the claim for a while, so that a retention that counts
// from the claim, or from a transaction's beginning, shows.
func recordRetention(s *suite) {
	req := careful(newKey())
	var claim dedup.Claim
	claiming := timed(func() { claim = s.claim(s.First, req) })
	s.sleepPast(claiming, s.short())
	retention := 2 * s.short()
	start := timed(func() { s.must("Complete", complete(claim, keptFor(retention))) })
	s.wantForgotten(start, req, retention, dedup.Completed)
}

// forgottenFingerprint: what is forgotten is forgotten whole.
func forgottenFingerprint(s *suite) {
	req := careful(newKey())
	claim := s.claim(s.First, req)
	start := timed(func() { s.must("Complete", complete(claim, keptFor(s.short()))) })
	req.Fingerprint = another
	s.wantForgotten(start, req, s.short(), dedup.Reused)
}

// unsettledRetention: retention counts from the end of the lease.
func unsettledRetention(s *suite) {
	req := careful(newKey())
	req.Lease, req.Retention = s.short(), s.short()
	start := timed(func() { s.claim(s.First, req) })
	s.wantForgotten(start, careful(req.Key), req.Lease+req.Retention, dedup.InProgress, dedup.Unknown)
}

// soon claims an operation and takes one step with the claim before it is
// forgotten. Where the machine was too slow for that it tries another.
func (s *suite) soon(req dedup.ClaimRequest, step func(context.Context, dedup.Claim) error) (dedup.Key, interval) {
	s.Helper()
	for {
		req.Key = newKey()
		began := time.Now()
		claim := s.claim(s.First, req)
		var err error
		took := timed(func() {
			err = s.settle(func(ctx context.Context) error { return step(ctx, claim) })
		})
		if err == nil {
			return req.Key, took
		}
		if time.Since(began) < req.Lease+req.Retention-tolerance {
			s.Fatal(err)
		}
	}
}

// renewedRetention: a renewal moves the end of the lease, and the retention
// with it.
func renewedRetention(s *suite) {
	req := careful(newKey())
	req.Lease, req.Retention = s.short(), s.short()
	lease := 3 * s.short()
	key, start := s.soon(req, func(ctx context.Context, claim dedup.Claim) error {
		return claim.Renew(ctx, lease)
	})
	s.wantForgotten(start, careful(key), lease+req.Retention, dedup.InProgress, dedup.Unknown)
}

// separateTimes: a record outlives the lease and the retention that its claim
// was asked for with.
func separateTimes(s *suite) {
	req := careful(newKey())
	req.Lease, req.Retention = s.short(), s.short()
	key, start := s.soon(req, func(ctx context.Context, claim dedup.Claim) error {
		return claim.Complete(ctx, recorded("paid"))
	})
	s.sleepPast(start, 2*(req.Lease+req.Retention))
	s.wantRecord(key, []byte("paid"))
}

func shortestRetention(s *suite) {
	req := careful(newKey())
	claim := s.claim(s.First, req)
	start := timed(func() { s.must("Complete", complete(claim, keptFor(s.shortest()))) })
	s.wantForgotten(start, req, s.shortest(), dedup.Completed)
}

func shortestLease(s *suite) {
	req := careful(newKey())
	req.Lease, req.Retention = s.shortest(), s.shortest()
	start := timed(func() { s.claim(s.First, req) })
	s.wantForgotten(start, careful(req.Key), req.Lease+req.Retention, dedup.InProgress, dedup.Unknown)
}

// centuries is the longest duration: its end must not come out in the past.
const centuries time.Duration = math.MaxInt64

func longestRetention(s *suite) {
	req := request(newKey())
	claim := s.claim(s.First, req)
	if err := s.settle(complete(claim, keptFor(centuries))); err != nil {
		s.must("Complete after one that was refused", complete(s.afterRefusal(claim, req), recorded("paid")))
	}
	s.wantRecord(req.Key, []byte("paid"))
}

func longestLease(s *suite) {
	req := request(newKey())
	req.Lease, req.Retention = centuries, centuries
	ctx, cancel := s.bounded()
	defer cancel()
	answer, err := s.try(ctx, s.First, req)
	if err != nil { // refused, and nothing changed
		answer = s.ask(s.First, request(req.Key))
	}
	s.wantState(answer, dedup.Claimed)
	s.wantHeld(s.Second, request(req.Key))
	if s.settle(renew(answer.Claim, centuries)) != nil {
		s.must("Renew after one that was refused", renew(answer.Claim, long))
	}
	s.wantHeld(s.Second, request(req.Key))
}

// afterRefusal returns the claim to go on with after a completion that was
// refused: the same one, or, where that was a transaction and is over, a new
// one.
func (s *suite) afterRefusal(claim dedup.Claim, req dedup.ClaimRequest) dedup.Claim {
	s.Helper()
	if !s.transactional() {
		return claim
	}
	req.Owner = newOwner()
	return s.claim(s.Second, req)
}

// tooShort are durations that cannot be honoured.
func (s *suite) tooShort() []time.Duration {
	return []time.Duration{-time.Second, 0, s.shortest() / 2}
}

func refusedRetention(s *suite) {
	for _, d := range s.tooShort() {
		req := request(newKey())
		claim := s.claim(s.First, req)
		s.mustRefuse("Complete with a retention of "+d.String(), complete(claim, keptFor(d)))
		claim = s.afterRefusal(claim, req)
		s.wantHeld(s.First, request(req.Key))
		s.must("Complete", complete(claim, recorded("paid")))
		s.wantRecord(req.Key, []byte("paid"))
	}
}

func refusedLease(s *suite) {
	for _, d := range s.tooShort() {
		short, forgetful := request(newKey()), request(newKey())
		short.Lease = d
		forgetful.Retention = d
		for _, req := range []dedup.ClaimRequest{short, forgetful} {
			s.mustRefuse("claim with a lease or a retention of "+d.String(), func(ctx context.Context) error {
				_, err := s.try(ctx, s.First, req)
				return err
			})
			claim := s.claim(s.Second, careful(req.Key))
			if claim.Attempt() != 1 {
				s.Errorf("attempt %d after a claim that was refused, want 1", claim.Attempt())
			}
			s.mustRefuse("Renew with a lease of "+d.String(), renew(claim, d))
			s.wantHeld(s.First, request(req.Key))
			s.must("Complete", complete(claim, recorded("paid")))
		}
	}
}
