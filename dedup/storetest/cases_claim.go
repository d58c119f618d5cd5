package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
)

func newOperation(s *suite) {
	for _, store := range s.both() {
		claim := s.claim(store, request(newKey()))
		if claim.Fence() == 0 {
			s.Errorf("%s: the fence is 0, so that it cannot be told from none", store.name)
		}
		if claim.Attempt() != 1 {
			s.Errorf("%s: attempt %d, want 1", store.name, claim.Attempt())
		}
		s.must("Release", claim.Release)
	}
}

func completedOperation(s *suite) {
	key := newKey()
	claim := s.claim(s.First, request(key))
	s.must("Complete", complete(claim, recorded("paid")))
	s.wantRecord(key, []byte("paid"))

	careful := request(key)
	careful.Takeover = false
	s.wantState(s.ask(s.Second, careful), dedup.Completed)
}

func heldOperation(s *suite) {
	key := newKey()
	req := request(key)
	req.Lease = long / 2
	claim := s.claim(s.First, req)
	for _, store := range s.both() {
		for _, takeover := range []bool{false, true} {
			req := request(key)
			req.Takeover = takeover
			if left := s.wantHeld(store, req).LeaseLeft; left > long/2 {
				s.Errorf("%s: %v of a lease of %v is left", store.name, left, long/2)
			}
		}
	}
	s.must("Complete", complete(claim, recorded("paid")))
	s.wantRecord(key, []byte("paid"))
}

// leaseLeft is for leased stores: that they do not know is an answer, but what
// they say must shrink.
func leaseLeft(s *suite) {
	req := request(newKey())
	var claim dedup.Claim
	start := timed(func() { claim = s.claim(s.First, req) })
	s.sleepPast(start, s.short())
	sent := time.Now()
	left := s.wantHeld(s.Second, request(req.Key)).LeaseLeft
	if most := req.Lease - sent.Sub(start.after) + tolerance; left > most {
		s.Errorf("%v of the lease is left, want %v at most", left, most)
	}
	if least := req.Lease - time.Since(start.before) - tolerance; left != 0 && left < least {
		s.Errorf("%v of the lease is left, want %v at least", left, least)
	}
	s.must("Release", claim.Release)
}

// claimed is one racer's answer.
type claimed struct {
	answer dedup.Answer
	err    error
}

// race lets a crowd ask for an operation at once and returns the winner.
// Nobody settles until all have their answers.
func race(s *suite, newRequest func() dedup.ClaimRequest) dedup.Claim {
	s.Helper()
	limit := patience
	if s.transactional() {
		limit = briefly
	}
	for ; ; limit *= 4 {
		racers := crowd(crowded, func(i int) claimed {
			answer, err := s.tryFor(limit, s.either(i), newRequest())
			return claimed{answer, err}
		})
		var winners []dedup.Claim
		for _, r := range racers {
			switch {
			case r.err != nil && s.transactional() && errors.Is(r.err, context.DeadlineExceeded):
			case r.err != nil:
				s.Fatal(r.err)
			case r.answer.State == dedup.Claimed:
				winners = append(winners, r.answer.Claim)
			case r.answer.State != dedup.InProgress:
				s.Fatalf("claim: answered %v, want %v", r.answer.State, dedup.InProgress)
			}
		}
		if len(winners) == 1 {
			return winners[0]
		}
		if len(winners) > 1 || limit >= patience {
			s.Fatalf("%d claims won, want 1", len(winners))
		}
	}
}

func oneWinner(s *suite) {
	key := newKey()
	winner := race(s, func() dedup.ClaimRequest { return request(key) })
	s.must("Complete", complete(winner, recorded("paid")))
	s.wantRecord(key, []byte("paid"))
}

func oneExecution(s *suite) {
	key := newKey()
	ctx, cancel := s.bounded()
	defer cancel()
	var executions atomic.Int64
	type result struct {
		record string
		err    error
	}
	results := crowd(crowded, func(i int) result {
		record, err := s.execute(ctx, s.either(i), key, func(dedup.Claim) (string, error) {
			executions.Add(1)
			return fmt.Sprintf("paid by %d", i), sleep(ctx, pause)
		})
		return result{record, err}
	})
	if n := executions.Load(); n != 1 {
		s.Errorf("executed %d times, want once", n)
	}
	for _, r := range results {
		if r.err != nil {
			s.Fatal(r.err)
		}
		if r.record != results[0].record {
			s.Fatalf("one got the record %q, another %q", r.record, results[0].record)
		}
	}
}

// repeatedClaim: the reply to a claim was lost, so its owner asks again.
func repeatedClaim(s *suite) {
	req := request(newKey())
	claim := s.claim(s.First, req)
	for _, store := range s.both() {
		repeated := s.claim(store, req)
		if repeated.Fence() != claim.Fence() || repeated.Attempt() != claim.Attempt() {
			s.Errorf("%s: repeated claim has fence %d and attempt %d, want %d and %d", store.name,
				repeated.Fence(), repeated.Attempt(), claim.Fence(), claim.Attempt())
		}
	}
	s.wantHeld(s.Second, request(req.Key))
	s.must("Complete", complete(s.claim(s.Second, req), recorded("paid")))
	s.wantState(s.ask(s.First, req), dedup.Completed)
}

// repeatedTransaction: a transaction whose reply was lost is rolled back, so
// that its owner need not be recognised; but it must not get a second one
// beside an open first.
func repeatedTransaction(s *suite) {
	req := request(newKey())
	claim := s.claim(s.First, req)
	for _, store := range s.both() {
		answer, err := s.tryFor(briefly, store, req)
		if err == nil && answer.State == dedup.Claimed && answer.Claim.Fence() != claim.Fence() {
			s.Errorf("%s: repeated claim has fence %d, want %d", store.name, answer.Claim.Fence(), claim.Fence())
		}
	}
	s.must("Complete", complete(claim, recorded("paid")))
	s.wantState(s.ask(s.Second, req), dedup.Completed)
}

// outlivedContext: the caller that asked for a claim goes away, its operation
// goes on. A store that ends it may do so a moment later.
func outlivedContext(s *suite) {
	key := newKey()
	ctx, cancel := context.WithCancel(s.Context())
	answer, err := s.try(ctx, s.First, request(key))
	cancel()
	if err != nil {
		s.Fatal(err)
	}
	s.wantState(answer, dedup.Claimed)
	time.Sleep(4 * pause)
	s.wantHeld(s.Second, request(key))
	s.must("Complete", complete(answer.Claim, recorded("paid")))
	s.wantRecord(key, []byte("paid"))
}

// contextKey is what a handler may find in its context.
type contextKey struct{}

func claimContext(s *suite) {
	claim := s.claim(s.First, request(newKey()))
	parent, cancel := context.WithCancel(context.WithValue(s.Context(), contextKey{}, "trace"))
	defer cancel()
	ctx := claim.Context(parent)
	if ctx.Value(contextKey{}) != "trace" {
		s.Error("Context: the parent's values are gone")
	}
	if ctx.Err() != nil {
		s.Errorf("Context: ended at once: %v", ctx.Err())
	}
	cancel()
	if ctx.Err() == nil {
		s.Error("Context: goes on after its parent has ended")
	}
	s.must("Complete", complete(claim, recorded("paid")))
}

// openTogether is for stores that can hold claims of many operations at once.
func openTogether(s *suite) {
	claims := make([]dedup.Claim, 8)
	keys := make([]dedup.Key, len(claims))
	for i := range claims {
		keys[i] = newKey()
		claims[i] = s.claim(s.either(i), request(keys[i]))
	}
	for i, claim := range claims {
		s.must("Complete", complete(claim, recorded(fmt.Sprint("paid ", i))))
	}
	for i, key := range keys {
		s.wantRecord(key, []byte(fmt.Sprint("paid ", i)))
	}
}

// openAlone is for a storage with one writer: what is not declared is not
// there, and a claim that cannot be had now is not said to be in progress.
func openAlone(s *suite) {
	claim := s.claim(s.First, request(newKey()))
	for _, store := range s.both() {
		answer, err := s.tryFor(briefly, store, request(newKey()))
		if err == nil {
			s.Fatalf("%s: claim: answered %v while another operation's claim is open; "+
				"want an error, or ConcurrentClaims declared", store.name, answer.State)
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			s.Fatalf("%s: %v, want the context's error", store.name, err)
		}
	}
	s.must("Complete", complete(claim, recorded("paid")))
	s.must("Release", s.claim(s.Second, request(newKey())).Release)
}

func manyOperations(s *suite) {
	ctx, cancel := s.bounded()
	defer cancel()
	keys := make([]dedup.Key, crowded)
	for i := range keys {
		keys[i] = newKey()
	}
	errs := crowd(crowded, func(i int) error {
		_, err := s.execute(ctx, s.either(i), keys[i], func(dedup.Claim) (string, error) {
			return fmt.Sprint("paid ", i), nil
		})
		return err
	})
	if err := errors.Join(errs...); err != nil {
		s.Fatal(err)
	}
	for i, key := range keys {
		s.wantRecord(key, []byte(fmt.Sprint("paid ", i)))
	}
}
