package storetest

import (
	"context"
	"errors"
	"slices"

	"github.com/retrysafe/retrysafe/dedup"
)

// write plays a handler that writes the marker under the claim.
func (s *suite) write(claim dedup.Claim, marker string) {
	s.Helper()
	s.writeUnder(claim, marker, s.Context())
}

// writeUnder is write with the context that the handler was called with.
func (s *suite) writeUnder(claim dedup.Claim, marker string, parent context.Context) {
	s.Helper()
	ctx, cancel := context.WithTimeout(claim.Context(parent), patience)
	defer cancel()
	if err := s.Effects.Write(ctx, marker); err != nil {
		s.Fatalf("Effects.Write: %v", err)
	}
}

// mustNotWrite fails the case where a write goes through that belongs to no
// open claim.
func (s *suite) mustNotWrite(what string, parent context.Context) {
	s.Helper()
	ctx, cancel := context.WithTimeout(parent, patience)
	defer cancel()
	marker := unique()
	if err := s.Effects.Write(ctx, marker); err == nil {
		s.Fatalf("%s: Effects.Write: went through, want an error", what)
	}
	s.wantWritten(nil, []string{marker})
}

// wantWritten fails the case where what is committed is not what should be.
func (s *suite) wantWritten(want, unwanted []string) {
	s.Helper()
	ctx, cancel := s.bounded()
	defer cancel()
	all, err := s.Effects.Written(ctx)
	if err != nil {
		s.Fatalf("Effects.Written: %v", err)
	}
	for _, marker := range want {
		if !slices.Contains(all, marker) {
			s.Fatal("a write that should have been committed is not there")
		}
	}
	for _, marker := range unwanted {
		if slices.Contains(all, marker) {
			s.Fatal("a write is there that should not have been committed")
		}
	}
}

func undone(record string) dedup.Completion {
	c := recorded(record)
	c.Undo = true
	return c
}

func committedTogether(s *suite) {
	key, early, late := newKey(), unique(), unique()
	claim := s.claim(s.First, request(key))
	s.write(claim, early)
	s.write(claim, late)
	s.wantWritten(nil, []string{early, late})
	s.wantHeld(s.Second, request(key))
	s.must("Complete", complete(claim, recorded("paid")))
	s.wantWritten([]string{early, late}, nil)
	s.wantRecord(key, []byte("paid"))
}

func undoneWrites(s *suite) {
	key, marker := newKey(), unique()
	claim := s.claim(s.First, request(key))
	s.write(claim, marker)
	s.must("Complete with Undo", complete(claim, undone("refused")))
	s.wantWritten(nil, []string{marker})
	s.wantRecord(key, []byte("refused"))
}

func releasedWrites(s *suite) {
	key, undone, kept := newKey(), unique(), unique()
	claim := s.claim(s.First, request(key))
	s.write(claim, undone)
	s.must("Release", claim.Release)
	s.wantWritten(nil, []string{undone})

	claim = s.claim(s.Second, careful(key))
	s.write(claim, kept)
	s.must("Complete", complete(claim, recorded("paid")))
	s.wantWritten([]string{kept}, []string{undone})
	s.wantRecord(key, []byte("paid"))
}

// refusedOutcome: where the record is not kept the writes are not either, and
// the claim is over.
func refusedOutcome(s *suite) {
	refused := map[string]dedup.Completion{"a retention of 0": keptFor(0)}
	if s.MaxRecord != 0 {
		refused["a record too large"] = dedup.Completion{Record: noise(s.MaxRecord + 1), Retention: long}
	}
	for what, c := range refused {
		key, marker := newKey(), unique()
		claim := s.claim(s.First, request(key))
		s.write(claim, marker)
		s.mustRefuse("Complete with "+what, complete(claim, c))
		s.wantWritten(nil, []string{marker})
		s.must("Release", s.claim(s.Second, careful(key)).Release)
		s.wantWritten(nil, []string{marker})
	}
}

// endedOutcome: a completion whose context ends commits both or neither.
func endedOutcome(s *suite) {
	for _, ctx := range ended(s) {
		key, marker := newKey(), unique()
		claim := s.claim(s.First, request(key))
		s.write(claim, marker)
		s.mustEnd(ctx, "Complete", claim.Complete(ctx, recorded("not to be")))
		s.wantWritten(nil, []string{marker})
		s.must("Release", s.claim(s.Second, careful(key)).Release)
		s.wantWritten(nil, []string{marker})
	}
}

// fail plays a handler whose statement the storage refuses.
func (s *suite) fail(claim dedup.Claim) {
	s.Helper()
	ctx, cancel := context.WithTimeout(claim.Context(s.Context()), patience)
	defer cancel()
	if err := s.Effects.Fail(ctx); err == nil {
		s.Fatal("Effects.Fail: went through, want an error")
	}
}

// failedStatement: a handler that met a constraint answers with a business
// error, and that is its outcome.
func failedStatement(s *suite) {
	key, marker := newKey(), unique()
	claim := s.claim(s.First, request(key))
	s.write(claim, marker)
	s.fail(claim)
	s.must("Complete with Undo after a failed statement", complete(claim, undone("exists")))
	s.wantWritten(nil, []string{marker})
	s.wantRecord(key, []byte("exists"))
}

// overlookedFailure: a handler that overlooks that a statement failed gets
// both its writes and its record committed, or neither.
func overlookedFailure(s *suite) {
	key, marker := newKey(), unique()
	claim := s.claim(s.First, request(key))
	s.write(claim, marker)
	s.fail(claim)
	if err := s.settle(complete(claim, recorded("paid"))); err != nil {
		s.wantWritten(nil, []string{marker})
		s.must("Release", s.claim(s.Second, careful(key)).Release)
		return
	}
	s.wantWritten([]string{marker}, nil)
	s.wantRecord(key, []byte("paid"))
}

// settledContext: what a handler left running must not write into a
// transaction that is another's by now.
func settledContext(s *suite) {
	settlements := map[string]func(dedup.Claim) func(context.Context) error{
		"after Complete": func(c dedup.Claim) func(context.Context) error { return complete(c, recorded("paid")) },
		"after Undo":     func(c dedup.Claim) func(context.Context) error { return complete(c, undone("refused")) },
		"after Release":  func(c dedup.Claim) func(context.Context) error { return c.Release },
	}
	for what, settlement := range settlements {
		claim := s.claim(s.First, request(newKey()))
		ctx := claim.Context(s.Context())
		s.must("settlement", settlement(claim))
		s.mustNotWrite(what, ctx)

		next := s.claim(s.First, request(newKey()))
		s.mustNotWrite(what+", under the next claim", ctx)
		s.must("Complete", complete(next, recorded("next")))
		s.mustNotWrite(what+" and the next claim's", ctx)
	}
}

func unclaimedWrite(s *suite) {
	s.mustNotWrite("without a claim", s.Context())
}

// blockedDuplicate: what waits for a transaction gets what it committed, or is
// told that it is in progress.
func blockedDuplicate(s *suite) {
	key, marker := newKey(), unique()
	claim := s.claim(s.First, request(key))
	s.write(claim, marker)
	records := make(chan claimed, 2)
	ctx, cancel := s.bounded()
	defer cancel()
	for _, store := range s.both() {
		go func() {
			_, err := s.execute(ctx, store, key, func(dedup.Claim) (string, error) {
				return "", errors.New("executed a second time")
			})
			records <- claimed{err: err}
		}()
	}
	_ = sleep(ctx, 4*pause) // lets them block, mostly
	s.must("Complete", complete(claim, recorded("paid")))
	for range s.both() {
		if r := <-records; r.err != nil {
			s.Fatal(r.err)
		}
	}
	s.wantWritten([]string{marker}, nil)
}

// blockedSuccessor: what waits for a transaction that is undone executes.
func blockedSuccessor(s *suite) {
	key, undone, kept := newKey(), unique(), unique()
	claim := s.claim(s.First, request(key))
	s.write(claim, undone)
	ctx, cancel := s.bounded()
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := s.execute(ctx, s.Second, key, func(claim dedup.Claim) (string, error) {
			return "paid", s.Effects.Write(claim.Context(ctx), kept)
		})
		done <- err
	}()
	_ = sleep(ctx, 4*pause) // lets it block, mostly
	s.must("Release", claim.Release)
	if err := <-done; err != nil {
		s.Fatal(err)
	}
	s.wantWritten([]string{kept}, []string{undone})
	s.wantRecord(key, []byte("paid"))
}

// separateFates: of many operations at once each keeps or loses its own
// writes, however the store shares its transactions among them.
func separateFates(s *suite) {
	ctx, cancel := s.bounded()
	defer cancel()
	var kept, lost []string
	markers := make([]string, crowded)
	for i := range markers {
		markers[i] = unique()
		if i%4 == 0 || i%4 == 1 {
			kept = append(kept, markers[i])
		} else {
			lost = append(lost, markers[i])
		}
	}
	errs := crowd(crowded, func(i int) error {
		answer, err := s.try(ctx, s.either(i/8), request(newKey()))
		if err != nil {
			return err
		}
		if answer.State != dedup.Claimed {
			return errors.New("a new operation was not claimed")
		}
		if err := s.Effects.Write(answer.Claim.Context(ctx), markers[i]); err != nil {
			return err
		}
		switch i % 4 {
		case 2:
			return answer.Claim.Complete(ctx, undone("refused"))
		case 3:
			return answer.Claim.Release(ctx)
		}
		return answer.Claim.Complete(ctx, recorded("paid"))
	})
	if err := errors.Join(errs...); err != nil {
		s.Fatal(err)
	}
	s.wantWritten(kept, lost)
}

// racingWrites: of a crowd that executes one operation, one writes.
func racingWrites(s *suite) {
	key := newKey()
	ctx, cancel := s.bounded()
	defer cancel()
	markers := make([]string, crowded)
	for i := range markers {
		markers[i] = unique()
	}
	errs := crowd(crowded, func(i int) error {
		_, err := s.execute(ctx, s.either(i), key, func(claim dedup.Claim) (string, error) {
			return markers[i], errors.Join(s.Effects.Write(claim.Context(ctx), markers[i]), sleep(ctx, pause))
		})
		return err
	})
	if err := errors.Join(errs...); err != nil {
		s.Fatal(err)
	}
	answer := s.ask(s.First, request(key))
	s.wantState(answer, dedup.Completed)
	winner := string(answer.Record)
	losers := slices.DeleteFunc(markers, func(m string) bool { return m == winner })
	s.wantWritten([]string{winner}, losers)
}
