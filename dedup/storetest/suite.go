package storetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
)

const (
	// long is a lease or a retention that does not end while a case runs.
	long = 10 * time.Minute
	// tolerance is how far a store's clock and the suite's may be apart over a
	// second or less.
	tolerance = 10 * time.Millisecond
	// pause lies between two looks at a condition that is waited for.
	pause = 5 * time.Millisecond
	// patience is how long a condition is waited for. It is far above what any
	// store needs, so that a loaded machine fails nothing.
	patience = 30 * time.Second
	// briefly is how long a claim is asked for where it is expected to block
	// until its context ends. It is raised where it proves too short.
	briefly = 200 * time.Millisecond
	// crowded is how many ask at once where claims race.
	crowded = 64
)

// suite is what a case has in hand: the test that it reports to, the storage,
// and the moves that cases share. Its methods that need an answer fail the
// case where there is none, so they are for the case's own goroutine; those
// that return an error are for any.
type suite struct {
	testing.TB
	Storage
}

// named is a store with its name in messages.
type named struct {
	name string
	dedup.Store
}

func (s *suite) both() []named {
	return []named{{"First", s.First}, {"Second", s.Second}}
}

// either returns First for even numbers and Second for odd ones.
func (s *suite) either(i int) dedup.Store {
	if i%2 == 0 {
		return s.First
	}
	return s.Second
}

func (s *suite) transactional() bool { return transactional(s.Storage) }

// shortest is the shortest duration that is honoured.
func (s *suite) shortest() time.Duration {
	if s.MinDuration == 0 {
		return time.Millisecond
	}
	return s.MinDuration
}

// short is a lease or a retention whose end a case waits for.
func (s *suite) short() time.Duration { return max(s.MinDuration, 150*time.Millisecond) }

// bounded is the context of one step of a case.
func (s *suite) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.Context(), patience)
}

// unique returns 32 hexadecimal digits that nobody has used.
func unique() string {
	var b [16]byte
	rand.Read(b[:]) // never fails, by its documentation
	return hex.EncodeToString(b[:])
}

func newKey() dedup.Key {
	return dedup.Key{Scope: "tenant", Method: "/storetest.v1.Suite/Case", ID: unique()}
}

func newOwner() dedup.Owner {
	var owner dedup.Owner
	rand.Read(owner[:])
	return owner
}

var (
	fingerprint = dedup.FingerprintBytes([]byte("debit 5 EUR"))
	another     = dedup.FingerprintBytes([]byte("debit 6 EUR"))
)

// request asks for key as a newcomer does. It never ends while a case runs
// and takes over what it may.
func request(key dedup.Key) dedup.ClaimRequest {
	return dedup.ClaimRequest{
		Key:         key,
		Fingerprint: fingerprint,
		Owner:       newOwner(),
		Lease:       long,
		Retention:   long,
		Takeover:    true,
	}
}

func recorded(record string) dedup.Completion {
	return dedup.Completion{Record: []byte(record), Retention: long}
}

// try asks a store for a claim and checks what every answer must keep to. A
// claim that is still open at the end of the case is released then.
func (s *suite) try(ctx context.Context, store dedup.Store, req dedup.ClaimRequest) (dedup.Answer, error) {
	answer, err := store.Claim(ctx, req)
	if err != nil {
		return dedup.Answer{}, fmt.Errorf("claim: %w", err)
	}
	if answer.Claim != nil {
		s.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			_ = answer.Claim.Release(ctx) // refused where the case has settled it
		})
	}
	switch {
	case answer.State < dedup.Claimed || answer.State > dedup.Unknown:
		return answer, fmt.Errorf("claim: answered %v, which is no state", answer.State)
	case (answer.Claim != nil) != (answer.State == dedup.Claimed):
		return answer, fmt.Errorf("claim: answered %v with the claim %v", answer.State, answer.Claim)
	case len(answer.Record) > 0 && answer.State != dedup.Completed:
		return answer, fmt.Errorf("claim: answered %v with a record", answer.State)
	case answer.LeaseLeft != 0 && answer.State != dedup.InProgress:
		return answer, fmt.Errorf("claim: answered %v with a lease left", answer.State)
	case answer.LeaseLeft < 0:
		return answer, fmt.Errorf("claim: answered that %v of the lease is left", answer.LeaseLeft)
	}
	return answer, nil
}

// ask is try where a store that is well must answer.
func (s *suite) ask(store dedup.Store, req dedup.ClaimRequest) dedup.Answer {
	s.Helper()
	ctx, cancel := s.bounded()
	defer cancel()
	answer, err := s.try(ctx, store, req)
	if err != nil {
		s.Fatal(err)
	}
	return answer
}

// claim is ask where the answer must be Claimed.
func (s *suite) claim(store dedup.Store, req dedup.ClaimRequest) dedup.Claim {
	s.Helper()
	answer := s.ask(store, req)
	s.wantState(answer, dedup.Claimed)
	return answer.Claim
}

func (s *suite) wantState(answer dedup.Answer, want dedup.State) {
	s.Helper()
	if answer.State != want {
		s.Fatalf("claim: answered %v, want %v", answer.State, want)
	}
}

// wantHeld asks for an operation that another holds.
//
// A leased store answers InProgress at once. A transactional one may block
// until the context ends; a storage with one writer may then be unable to
// tell whose transaction it waited for.
func (s *suite) wantHeld(store dedup.Store, req dedup.ClaimRequest) dedup.Answer {
	s.Helper()
	if !s.transactional() {
		answer := s.ask(store, req)
		s.wantState(answer, dedup.InProgress)
		return answer
	}
	for wait := briefly; ; wait *= 4 {
		answer, err := s.tryFor(wait, store, req)
		if err == nil {
			s.wantState(answer, dedup.InProgress)
			return answer
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			s.Fatal(err)
		}
		if !s.ConcurrentClaims {
			return dedup.Answer{}
		}
		if wait > patience {
			s.Fatalf("%v; want %v where the store waited for the operation's holder", err, dedup.InProgress)
		}
	}
}

// tryFor is try with a time limit.
func (s *suite) tryFor(limit time.Duration, store dedup.Store, req dedup.ClaimRequest) (dedup.Answer, error) {
	ctx, cancel := context.WithTimeout(s.Context(), limit)
	defer cancel()
	return s.try(ctx, store, req)
}

// settle runs one settlement or renewal and returns its error.
func (s *suite) settle(do func(context.Context) error) error {
	ctx, cancel := s.bounded()
	defer cancel()
	return do(ctx)
}

func complete(claim dedup.Claim, c dedup.Completion) func(context.Context) error {
	return func(ctx context.Context) error { return claim.Complete(ctx, c) }
}

func renew(claim dedup.Claim, lease time.Duration) func(context.Context) error {
	return func(ctx context.Context) error { return claim.Renew(ctx, lease) }
}

// must fails the case where a settlement or renewal does not go through.
func (s *suite) must(what string, do func(context.Context) error) {
	s.Helper()
	if err := s.settle(do); err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

// mustLose fails the case where a settlement or renewal does not answer that
// the claim has been lost.
func (s *suite) mustLose(what string, do func(context.Context) error) {
	s.Helper()
	if err := s.settle(do); !errors.Is(err, dedup.ErrLeaseLost) {
		s.Fatalf("%s: error %v, want ErrLeaseLost", what, err)
	}
}

// mustRefuse fails the case where a settlement or renewal goes through.
func (s *suite) mustRefuse(what string, do func(context.Context) error) {
	s.Helper()
	if err := s.settle(do); err == nil {
		s.Fatalf("%s: went through, want an error", what)
	}
}

// wantRecord fails the case where a newcomer at either store does not get the
// record.
func (s *suite) wantRecord(key dedup.Key, want []byte) {
	s.Helper()
	for _, store := range s.both() {
		answer := s.ask(store, request(key))
		if answer.State != dedup.Completed {
			s.Fatalf("%s: claim: answered %v, want %v", store.name, answer.State, dedup.Completed)
		}
		if !bytes.Equal(answer.Record, want) {
			s.Fatalf("%s: record of %d bytes %.40q, want %d bytes %.40q",
				store.name, len(answer.Record), answer.Record, len(want), want)
		}
	}
}

// ending is what was seen of the end of a lease or a retention.
type ending struct {
	dedup.Answer           // the first answer after the end
	seenAlive    time.Time // when the last request that found it alive was sent
	seenOver     time.Time // when the answer came that it is over
}

// awaitEnd asks for req again and again, with a new owner each time, until the
// answer is no longer one of during.
func (s *suite) awaitEnd(store dedup.Store, req dedup.ClaimRequest, during ...dedup.State) ending {
	s.Helper()
	var end ending
	for deadline := time.Now().Add(patience); ; time.Sleep(pause) {
		req.Owner = newOwner()
		sent := time.Now()
		answer := s.ask(store, req)
		if !slices.Contains(during, answer.State) {
			end.Answer, end.seenOver = answer, time.Now()
			return end
		}
		end.seenAlive = sent
		if sent.After(deadline) {
			s.Fatalf("claim: still answers %v after %v", answer.State, patience)
		}
	}
}

// interval is the time that one call took: what the call started has started
// in it.
type interval struct{ before, after time.Time }

func timed(call func()) interval {
	before := time.Now()
	call()
	return interval{before, time.Now()}
}

// wantLasted fails the case where what started in the interval ended before d
// had passed, or outlived it. Both judgements hold however slow the machine
// is: what was over at seenOver has lasted no longer than from the interval's
// beginning to then, and what was alive when seenAlive's request was sent has
// lasted from the interval's end to then at least.
func (s *suite) wantLasted(what string, start interval, end ending, d time.Duration) {
	s.Helper()
	if most := end.seenOver.Sub(start.before); most < d-tolerance {
		s.Errorf("%s: over after %v or less, want %v", what, most, d)
	}
	if end.seenAlive.IsZero() {
		return
	}
	if least := end.seenAlive.Sub(start.after); least > d+tolerance {
		s.Errorf("%s: still there after %v, want %v", what, least, d)
	}
}

// sleepPast returns when d has passed since the interval's end.
func (s *suite) sleepPast(start interval, d time.Duration) {
	time.Sleep(time.Until(start.after.Add(d + tolerance)))
}

// crowd calls f from n goroutines at once and returns what each made of it.
func crowd[T any](n int, f func(i int) T) []T {
	results := make([]T, n)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-start
			results[i] = f(i)
		})
	}
	close(start)
	all.Wait()
	return results
}

// execute is an engine in small: it claims until it can say what the
// operation's record is, and calls run and records what that returns where
// the claim is its own.
func (s *suite) execute(ctx context.Context, store dedup.Store, key dedup.Key, run func(dedup.Claim) (string, error)) (string, error) {
	for {
		answer, err := s.try(ctx, store, request(key))
		if err != nil {
			return "", err
		}
		switch answer.State {
		case dedup.Claimed:
			record, err := run(answer.Claim)
			if err != nil {
				return "", err
			}
			return record, answer.Claim.Complete(ctx, recorded(record))
		case dedup.Completed:
			return string(answer.Record), nil
		case dedup.InProgress:
			if err := sleep(ctx, pause); err != nil {
				return "", err
			}
		default:
			return "", fmt.Errorf("claim: answered %v", answer.State)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
