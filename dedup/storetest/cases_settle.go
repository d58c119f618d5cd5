package storetest

import (
	"context"
	"errors"

	"github.com/retrysafe/retrysafe/dedup"
)

// repeatedComplete: the reply to a completion was lost.
func repeatedComplete(s *suite) {
	key := newKey()
	claim := s.claim(s.First, request(key))
	for range 3 {
		s.must("Complete", complete(claim, recorded("paid")))
	}
	s.wantRecord(key, []byte("paid"))
}

func changedComplete(s *suite) {
	key := newKey()
	claim := s.claim(s.First, request(key))
	s.must("Complete", complete(claim, recorded("paid")))
	_ = s.settle(complete(claim, recorded("paid twice"))) // whatever it says
	s.wantRecord(key, []byte("paid"))
}

func released(s *suite) {
	key := newKey()
	first := s.claim(s.First, request(key))
	s.must("Release", first.Release)

	second := s.claim(s.Second, careful(key))
	if second.Fence() <= first.Fence() {
		s.Errorf("fence %d after fence %d", second.Fence(), first.Fence())
	}
	want := 2
	if s.transactional() {
		want = 1
	}
	if second.Attempt() != want {
		s.Errorf("attempt %d after a release, want %d", second.Attempt(), want)
	}
	s.wantHeld(s.First, request(key))
	s.must("Complete", complete(second, recorded("paid")))
	s.wantRecord(key, []byte("paid"))
}

func repeatedRelease(s *suite) {
	key := newKey()
	claim := s.claim(s.First, request(key))
	for range 3 {
		s.must("Release", claim.Release)
	}
	s.must("Release", s.claim(s.Second, careful(key)).Release)
}

func oneAfterRelease(s *suite) {
	key := newKey()
	first := s.claim(s.First, request(key))
	s.must("Release", first.Release)
	winner := race(s, func() dedup.ClaimRequest { return request(key) })
	if winner.Fence() <= first.Fence() {
		s.Errorf("fence %d after fence %d", winner.Fence(), first.Fence())
	}
	s.must("Complete", complete(winner, recorded("paid")))
}

func completeAfterRelease(s *suite) {
	key := newKey()
	claim := s.claim(s.First, request(key))
	s.must("Release", claim.Release)
	s.mustLose("Complete after Release", complete(claim, recorded("late")))

	next := s.claim(s.Second, careful(key))
	s.mustLose("Complete after another's Claim", complete(claim, recorded("late")))
	s.must("Complete", complete(next, recorded("paid")))
	s.mustLose("Complete after another's Complete", complete(claim, recorded("late")))
	s.wantRecord(key, []byte("paid"))
}

func releaseAfterComplete(s *suite) {
	key := newKey()
	claim := s.claim(s.First, request(key))
	s.must("Complete", complete(claim, recorded("paid")))
	s.mustLose("Release after Complete", claim.Release)
	s.wantRecord(key, []byte("paid"))
}

// releaseBesideClaims: an operation that is given up and asked for at once is
// held by one at a time.
func releaseBesideClaims(s *suite) {
	wait := patience
	if s.transactional() {
		wait = briefly // it may wait for the winner's end, which comes after all have asked
	}
	for range 4 {
		key := newKey()
		first := s.claim(s.First, request(key))
		ctx, cancel := s.bounded()
		racers := crowd(5, func(i int) claimed {
			if i == 0 {
				return claimed{err: first.Release(ctx)}
			}
			answer, err := s.tryFor(wait, s.either(i), request(key))
			if s.transactional() && errors.Is(err, context.DeadlineExceeded) {
				return claimed{} // its wait is over
			}
			return claimed{answer, err}
		})
		cancel()
		var winners int
		var errs []error
		for _, r := range racers {
			errs = append(errs, r.err)
			if r.answer.State == dedup.Claimed {
				winners++
			}
		}
		if err := errors.Join(errs...); err != nil {
			s.Fatal(err)
		}
		if winners > 1 {
			s.Fatalf("%d hold one operation", winners)
		}
		for _, r := range racers {
			if r.answer.Claim != nil {
				s.must("Release", r.answer.Claim.Release)
			}
		}
	}
}

// refusedUndo is for leased stores, which cannot undo what a handler has done
// elsewhere, and must not say that they have.
func refusedUndo(s *suite) {
	key := newKey()
	claim := s.claim(s.First, request(key))
	s.mustRefuse("Complete with Undo", complete(claim, undone("refused")))
	s.wantHeld(s.Second, request(key))
	s.must("Complete", complete(claim, recorded("paid")))
	s.wantRecord(key, []byte("paid"))
}
