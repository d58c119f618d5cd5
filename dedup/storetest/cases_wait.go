package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
)

// waiters returns both stores as what they are where this case runs.
func (s *suite) waiters() []dedup.Waiter {
	return []dedup.Waiter{s.First.(dedup.Waiter), s.Second.(dedup.Waiter)}
}

func waitForNobody(s *suite) {
	unknown, completed, released := newKey(), newKey(), newKey()
	s.must("Complete", complete(s.claim(s.First, request(completed)), recorded("paid")))
	s.must("Release", s.claim(s.First, request(released)).Release)
	for _, waiter := range s.waiters() {
		for _, key := range []dedup.Key{unknown, completed, released} {
			s.must("Wait where nobody holds the operation", func(ctx context.Context) error {
				return waiter.Wait(ctx, key)
			})
		}
	}
}

// wantWoken starts some that wait for a claim to end, at both stores, lets it
// end and fails the case where not all of them notice.
func (s *suite) wantWoken(key dedup.Key, end func()) {
	s.Helper()
	ctx, cancel := s.bounded()
	defer cancel()
	const sleepers = 4
	woken := make(chan error, sleepers)
	for i := range sleepers {
		go func() { woken <- s.waitUntilFree(ctx, i, key) }()
	}
	end()
	var errs []error
	for range sleepers {
		errs = append(errs, <-woken)
	}
	if err := errors.Join(errs...); err != nil {
		s.Fatalf("Wait, after the claim has ended: %v", err)
	}
}

// waitUntilFree waits as the engine does, which asks again after each Wait.
func (s *suite) waitUntilFree(ctx context.Context, i int, key dedup.Key) error {
	for {
		if err := s.waiters()[i%2].Wait(ctx, key); err != nil {
			return err
		}
		answer, err := s.try(ctx, s.either(i), careful(key))
		if err != nil {
			return err
		}
		if answer.State == dedup.Claimed {
			return answer.Claim.Release(ctx)
		}
		if answer.State != dedup.InProgress {
			return nil
		}
		if err := sleep(ctx, pause); err != nil { // it may return early, so do not spin
			return err
		}
	}
}

// wokenByComplete gives those who wait a moment to fall asleep in every other
// round, and none in the others, where a wake-up can be missed.
func wokenByComplete(s *suite) {
	for round := range 8 {
		key := newKey()
		claim := s.claim(s.First, request(key))
		s.wantWoken(key, func() {
			time.Sleep(time.Duration(round%2) * 10 * pause)
			s.must("Complete", complete(claim, recorded("paid")))
		})
	}
}

func wokenByRelease(s *suite) {
	for round := range 4 {
		key := newKey()
		claim := s.claim(s.First, request(key))
		s.wantWoken(key, func() {
			time.Sleep(time.Duration(round%2) * 10 * pause)
			s.must("Release", claim.Release)
		})
	}
}

func wokenByLease(s *suite) {
	req := request(newKey())
	req.Lease = s.short()
	s.claim(s.First, req)
	s.wantWoken(req.Key, func() {})
	s.wantState(s.ask(s.First, careful(req.Key)), dedup.Unknown)
}

func waitInVain(s *suite) {
	key := newKey()
	claim := s.claim(s.First, request(key))
	for i, waiter := range s.waiters() {
		ctx, cancel := context.WithTimeout(s.Context(), briefly)
		err := waiter.Wait(ctx, key)
		for err == nil && ctx.Err() == nil {
			_ = sleep(ctx, pause) // it may return early
			err = waiter.Wait(ctx, key)
		}
		if err != nil {
			s.mustEnd(ctx, s.both()[i].name+": Wait", err)
		}
		if ctx.Err() == nil {
			s.Errorf("%s: Wait: error %v before its context has ended", s.both()[i].name, err)
		}
		cancel()
	}
	s.wantHeld(s.Second, request(key))
	s.must("Complete", complete(claim, recorded("paid")))
	s.wantRecord(key, []byte("paid"))
}
