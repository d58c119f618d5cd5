package storetest

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe/dedup"
)

const (
	// benchCallers is how many call at once where a benchmark says "in parallel".
	benchCallers = 64
	// benchDuplicates is how many ask for each operation of the contended
	// benchmark.
	benchDuplicates = 8
)

// Bench measures what an operation costs the stores, without an engine and
// with a handler that does nothing: claim and complete, by one caller and by
// 64; replay, by one and by 64; and, contended, the time until eight callers of
// one new operation at both stores all have its record.
//
// Records have 256 bytes. Those of new operations are forgotten after 150 ms,
// so that a bounded store does not fill up.
func Bench(b *testing.B, newStorage func(testing.TB) Storage) {
	b.Helper()
	declared := newStorage(b)
	if err := declared.validate(); err != nil {
		b.Fatal(err)
	}
	for _, bm := range []struct {
		name string
		run  func(*testing.B, *bench)
	}{
		{"claim and complete", claimAndComplete},
		{"claim and complete in parallel", claimAndCompleteInParallel},
		{"replay", replay},
		{"replay in parallel", replayInParallel},
		{"contended", contended},
	} {
		b.Run(bm.name, func(b *testing.B) {
			s := &suite{TB: b, Storage: newStorage(b)}
			b.ReportAllocs()
			bm.run(b, &bench{suite: s, brief: dedup.Completion{Record: noise(256), Retention: s.short()}})
		})
	}
}

// bench is a suite with the completion that new operations get.
type bench struct {
	*suite
	brief dedup.Completion
}

// execute claims and completes a new operation.
func (s *bench) execute(ctx context.Context) error {
	answer, err := s.First.Claim(ctx, request(newKey()))
	if err != nil {
		return err
	}
	if answer.State != dedup.Claimed {
		return fmt.Errorf("claim: answered %v, want %v", answer.State, dedup.Claimed)
	}
	return answer.Claim.Complete(ctx, s.brief)
}

func (s *bench) replay(ctx context.Context, key dedup.Key) error {
	answer, err := s.First.Claim(ctx, request(key))
	if err != nil {
		return err
	}
	if answer.State != dedup.Completed {
		return fmt.Errorf("claim: answered %v, want %v", answer.State, dedup.Completed)
	}
	return nil
}

// completed returns an operation that has a record.
func (s *bench) completed() dedup.Key {
	key := newKey()
	kept := s.brief
	kept.Retention = long
	s.must("Complete", complete(s.claim(s.First, request(key)), kept))
	return key
}

func claimAndComplete(b *testing.B, s *bench) {
	for b.Loop() {
		if err := s.execute(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func claimAndCompleteInParallel(b *testing.B, s *bench) {
	inParallel(b, s.execute)
}

func replay(b *testing.B, s *bench) {
	key := s.completed()
	for b.Loop() {
		if err := s.replay(b.Context(), key); err != nil {
			b.Fatal(err)
		}
	}
}

func replayInParallel(b *testing.B, s *bench) {
	key := s.completed()
	inParallel(b, func(ctx context.Context) error { return s.replay(ctx, key) })
}

func inParallel(b *testing.B, call func(context.Context) error) {
	procs := runtime.GOMAXPROCS(0)
	b.SetParallelism((benchCallers + procs - 1) / procs)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := call(b.Context()); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func contended(b *testing.B, s *bench) {
	kept := s.brief
	kept.Retention = long
	errs := make([]error, benchDuplicates)
	for b.Loop() {
		key := newKey()
		var callers sync.WaitGroup
		for i := range errs {
			callers.Go(func() { errs[i] = s.untilCompleted(b.Context(), s.either(i), key, kept) })
		}
		callers.Wait()
		for _, err := range errs {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

// untilCompleted claims until the operation has a record, and completes it
// where the claim is its own.
func (s *bench) untilCompleted(ctx context.Context, store dedup.Store, key dedup.Key, c dedup.Completion) error {
	for {
		answer, err := store.Claim(ctx, request(key))
		switch {
		case err != nil:
			return err
		case answer.State == dedup.Completed:
			return nil
		case answer.State == dedup.Claimed:
			return answer.Claim.Complete(ctx, c)
		case answer.State != dedup.InProgress:
			return fmt.Errorf("claim: answered %v", answer.State)
		}
		if err := untilFree(ctx, store, key); err != nil {
			return err
		}
	}
}

// untilFree waits as the store can.
func untilFree(ctx context.Context, store dedup.Store, key dedup.Key) error {
	if waiter, ok := store.(dedup.Waiter); ok {
		return waiter.Wait(ctx, key)
	}
	return sleep(ctx, pause)
}
