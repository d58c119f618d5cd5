package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"

	"github.com/retrysafe/retrysafe/dedup"
)

// Codes of outcomes, as google.golang.org/grpc/codes numbers them.
const (
	notFound           = 5
	failedPrecondition = 9
)

// handler is what an engine executes.
type handler = func(context.Context) (dedup.Outcome, error)

// engine returns an engine on a store; the case closes it at its end.
func (s *suite) engine(store dedup.Store, opts ...dedup.Option) *dedup.Engine {
	s.Helper()
	opts = append([]dedup.Option{dedup.WithWait(patience), dedup.WithStoreTimeout(patience)}, opts...)
	engine, err := dedup.NewEngine(store, opts...)
	if err != nil {
		s.Fatalf("NewEngine: %v", err)
	}
	s.Cleanup(func() { _ = engine.Close() })
	return engine
}

func operation(key dedup.Key) dedup.Operation {
	return dedup.Operation{Key: key, Fingerprint: fingerprint}
}

// mustNotRun is the handler of an operation that has been executed.
func mustNotRun(context.Context) (dedup.Outcome, error) {
	return dedup.Outcome{}, errors.New("the handler was called")
}

func answering(o dedup.Outcome) handler {
	return func(context.Context) (dedup.Outcome, error) { return o, nil }
}

// do runs an operation that must be answered with an outcome.
func (s *suite) do(store dedup.Store, key dedup.Key, fn handler) dedup.Result {
	s.Helper()
	ctx, cancel := s.bounded()
	defer cancel()
	result, err := s.engine(store).Do(ctx, operation(key), fn)
	if err != nil {
		s.Fatalf("Engine.Do: %v", err)
	}
	return result
}

// outcomes are what an engine must get back as it was.
func (s *suite) outcomes() []dedup.Outcome {
	return []dedup.Outcome{
		{},
		{Response: dedup.Payload{Type: "empty"}},
		{Response: dedup.Payload{Type: "bytes", Value: allBytes()}},
		{
			Response: dedup.Payload{Type: "ledger.v1.DebitResponse", Value: []byte("paid")},
			Header: map[string][]string{
				"etag":       {`"1"`},
				"set-cookie": {"a=1", "b=2", "a=1"},
				"empty":      {""},
				"trace-bin":  {"\x00\x01\xff", "", "\xfe"},
			},
			Trailer: map[string][]string{
				"cost":      {"3"},
				"proof-bin": {string(allBytes())},
			},
		},
		{
			Code:    failedPrecondition,
			Message: "insufficient funds: é \x00 %s",
			Details: []dedup.Payload{
				{Type: "google.rpc.ErrorInfo", Value: []byte{10, 1, 0xff}},
				{Type: "google.rpc.ErrorInfo"},
				{Type: "ledger.v1.Shortfall", Value: []byte("EUR 5")},
			},
			Trailer: map[string][]string{"cost": {"0"}},
		},
		{Code: notFound},
	}
}

func replayedOutcomes(s *suite) {
	for i, outcome := range s.outcomes() {
		key := newKey()
		executed := s.do(s.First, key, answering(outcome))
		if executed.Replayed {
			s.Fatalf("outcome %d: the first call is a replay", i)
		}
		for _, store := range s.both() {
			replayed := s.do(store, key, mustNotRun)
			if !replayed.Replayed {
				s.Fatalf("outcome %d: %s: a repeat is not a replay", i, store.name)
			}
			if !sameOutcome(replayed.Outcome, outcome) {
				s.Fatalf("outcome %d: %s: replayed %+v, want %+v", i, store.name, replayed.Outcome, outcome)
			}
		}
	}
}

// sameOutcome takes nil and empty for the same.
func sameOutcome(a, b dedup.Outcome) bool {
	samePayload := func(a, b dedup.Payload) bool { return a.Type == b.Type && bytes.Equal(a.Value, b.Value) }
	sameMetadata := func(a, b map[string][]string) bool {
		return len(a) == 0 && len(b) == 0 || reflect.DeepEqual(a, b)
	}
	if len(a.Details) != len(b.Details) {
		return false
	}
	for i := range a.Details {
		if !samePayload(a.Details[i], b.Details[i]) {
			return false
		}
	}
	return a.Code == b.Code && a.Message == b.Message && samePayload(a.Response, b.Response) &&
		sameMetadata(a.Header, b.Header) && sameMetadata(a.Trailer, b.Trailer)
}

// wantRefusal runs an operation that must not execute.
func (s *suite) wantRefusal(store dedup.Store, op dedup.Operation, want error) {
	s.Helper()
	ctx, cancel := s.bounded()
	defer cancel()
	var ran bool
	_, err := s.engine(store).Do(ctx, op, func(context.Context) (dedup.Outcome, error) {
		ran = true
		return dedup.Outcome{}, nil
	})
	if ran {
		s.Fatalf("Engine.Do: executed the operation, want the error %q", want)
	}
	if !errors.Is(err, want) {
		s.Fatalf("Engine.Do: error %v, want %q", err, want)
	}
}

// unreadableRecord: what the engine cannot read it must not execute again, and
// the store must give it back as damaged as it is.
func unreadableRecord(s *suite) {
	for _, damaged := range []string{"", "\x00", "paid", "\xff" + strings.Repeat("damaged", 100)} {
		key := newKey()
		s.must("Complete", complete(s.claim(s.First, request(key)), recorded(damaged)))
		for _, store := range s.both() {
			s.wantRefusal(store, operation(key), dedup.ErrRecordUnreadable)
		}
		s.wantRecord(key, []byte(damaged))
	}
}

func reusedKey(s *suite) {
	key := newKey()
	s.do(s.First, key, answering(dedup.Outcome{Message: "paid"}))
	op := operation(key)
	op.Fingerprint = another
	s.wantRefusal(s.Second, op, dedup.ErrKeyReused)
	if replayed := s.do(s.Second, key, mustNotRun); replayed.Outcome.Message != "paid" {
		s.Errorf("replayed %+v after a call that was refused", replayed.Outcome)
	}
}

// oneExecutionByEngines: the engines of two processes wait for each other.
func oneExecutionByEngines(s *suite) {
	key := newKey()
	engines := []*dedup.Engine{s.engine(s.First), s.engine(s.Second)}
	ctx, cancel := s.bounded()
	defer cancel()
	var executions atomic.Int64
	type result struct {
		dedup.Result
		err error
	}
	results := crowd(crowded, func(i int) result {
		r, err := engines[i%2].Do(ctx, operation(key), func(ctx context.Context) (dedup.Outcome, error) {
			n := executions.Add(1)
			return dedup.Outcome{Message: fmt.Sprint("execution ", n)}, sleep(ctx, 4*pause)
		})
		return result{r, err}
	})
	if n := executions.Load(); n != 1 {
		s.Errorf("executed %d times, want once", n)
	}
	replays := 0
	for _, r := range results {
		if r.err != nil {
			s.Fatalf("Engine.Do: %v", r.err)
		}
		if r.Outcome.Message != "execution 1" {
			s.Fatalf("Engine.Do: answered %q, want %q", r.Outcome.Message, "execution 1")
		}
		if r.Replayed {
			replays++
		}
	}
	if replays != crowded-1 {
		s.Errorf("%d replays, want %d", replays, crowded-1)
	}
}

// oversizeOutcome: what is too large to keep is said to be so, to the first
// caller or to its repeats, and is not executed again under a leased store.
func oversizeOutcome(s *suite) {
	const limit = kibibyte
	key := newKey()
	ctx, cancel := s.bounded()
	defer cancel()
	engine := s.engine(s.First, dedup.WithMaxOutcome(limit))
	marker := unique()
	_, err := engine.Do(ctx, operation(key), func(ctx context.Context) (dedup.Outcome, error) {
		large := dedup.Outcome{Response: dedup.Payload{Value: noise(limit + 1)}}
		if s.transactional() {
			return large, s.Effects.Write(ctx, marker)
		}
		return large, nil
	})
	if s.transactional() {
		if !errors.Is(err, dedup.ErrTooLarge) {
			s.Fatalf("Engine.Do: error %v, want %q", err, dedup.ErrTooLarge)
		}
		s.wantWritten(nil, []string{marker})
		return
	}
	if err != nil && !errors.Is(err, dedup.ErrTooLarge) {
		s.Fatalf("Engine.Do: %v", err)
	}
	s.wantRefusal(s.Second, operation(key), dedup.ErrTooLarge)
}

// businessError: the handler's writes are undone, its answer is kept.
func businessError(s *suite) {
	key, marker := newKey(), unique()
	refused := dedup.Outcome{Code: failedPrecondition, Message: "insufficient funds"}
	s.do(s.First, key, func(ctx context.Context) (dedup.Outcome, error) {
		return refused, s.Effects.Write(ctx, marker)
	})
	s.wantWritten(nil, []string{marker})
	if replayed := s.do(s.Second, key, mustNotRun); !sameOutcome(replayed.Outcome, refused) {
		s.Errorf("replayed %+v, want %+v", replayed.Outcome, refused)
	}
}

// uncertainOutcome: a transactional store undoes what it is not certain of,
// so that the next call may execute.
func uncertainOutcome(s *suite) {
	key, lost, kept := newKey(), unique(), unique()
	ctx, cancel := s.bounded()
	defer cancel()
	failure := errors.New("the handler failed")
	_, err := s.engine(s.First).Do(ctx, operation(key), func(ctx context.Context) (dedup.Outcome, error) {
		return dedup.Outcome{}, errors.Join(s.Effects.Write(ctx, lost), failure)
	})
	if !errors.Is(err, failure) {
		s.Fatalf("Engine.Do: error %v, want the handler's", err)
	}
	s.wantWritten(nil, []string{lost})
	s.do(s.Second, key, func(ctx context.Context) (dedup.Outcome, error) {
		return dedup.Outcome{}, s.Effects.Write(ctx, kept)
	})
	s.wantWritten([]string{kept}, []string{lost})
}

// unknownOutcome: a leased store holds an operation that it is not certain of
// to the end of its lease, and then to the method's policy.
func unknownOutcome(s *suite) {
	key := newKey()
	ctx, cancel := s.bounded()
	defer cancel()
	failure := errors.New("the handler failed")
	op := operation(key)
	op.Lease = s.short()
	_, err := s.engine(s.First).Do(ctx, op, func(context.Context) (dedup.Outcome, error) {
		return dedup.Outcome{}, failure
	})
	if !errors.Is(err, failure) {
		s.Fatalf("Engine.Do: error %v, want the handler's", err)
	}
	op.OnUnknown = dedup.Reject
	s.wantRefusal(s.Second, op, dedup.ErrOutcomeUnknown)
	op.OnUnknown = dedup.Reexecute
	result, err := s.engine(s.Second).Do(ctx, op, func(ctx context.Context) (dedup.Outcome, error) {
		ex, ok := dedup.ExecutionFromContext(ctx)
		if !ok || ex.Attempt() != 2 {
			return dedup.Outcome{}, errors.New("the handler is not told that this is attempt 2")
		}
		return dedup.Outcome{Message: "paid"}, nil
	})
	if err != nil || result.Replayed {
		s.Fatalf("Engine.Do: error %v, replayed %v, want an execution", err, result.Replayed)
	}
	if replayed := s.do(s.First, key, mustNotRun); replayed.Outcome.Message != "paid" {
		s.Errorf("replayed %+v", replayed.Outcome)
	}
}
