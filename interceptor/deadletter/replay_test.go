package deadletter_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	ledgerv1 "github.com/retrysafe/retrysafe/gen/ledger/v1"
	"github.com/retrysafe/retrysafe/interceptor/deadletter"
	"github.com/retrysafe/retrysafe/interceptor/idempotency"
	"github.com/retrysafe/retrysafe/interceptor/retry"
)

// exhaust makes a debit that becomes a letter.
func (w *world) exhaust(t *testing.T, account string) *deadletter.Letter {
	t.Helper()
	if _, err := w.client.Debit(t.Context(), &ledgerv1.DebitRequest{AccountId: account}); err == nil {
		t.Fatal("the debit went through")
	}
	return one(t, w.queue)
}

func TestAReplayOfADebitThatHadCommittedGetsTheOriginal(t *testing.T) {
	w := newWorld(t, newQueue(t))
	w.loseResponses.Store(2)
	letter := w.exhaust(t, "alice")

	answer, err := deadletter.Replay(t.Context(), w.queue, letter.GetId(), w.conn)
	if err != nil || answer.Err != nil || !answer.Settled || !answer.Replayed {
		t.Fatalf("Replay = %+v, %v", answer, err)
	}
	if id := answer.Reply.(*ledgerv1.DebitResponse).GetEntry().GetEntryId(); id != 1 {
		t.Errorf("the reply is that of execution %d", id)
	}
	if n := w.ledger.debits.Load(); n != 1 {
		t.Errorf("debited %d times", n)
	}
	if n := len(letters(t, w.queue)); n != 0 {
		t.Errorf("%d letters are left", n)
	}
}

func TestAReplayOfWhatNeverArrivedExecutesIt(t *testing.T) {
	for _, plain := range []bool{false, true} {
		w := newWorld(t, newQueue(t))
		w.loseRequests.Store(2)
		letter := w.exhaust(t, "alice")
		conn := w.conn
		if plain {
			conn = w.plain // the key does not depend on interceptors
		}
		answer, err := deadletter.Replay(t.Context(), w.queue, letter.GetId(), conn)
		if err != nil || answer.Err != nil || !answer.Settled || answer.Replayed {
			t.Fatalf("Replay = %+v, %v", answer, err)
		}
		if n := w.ledger.debits.Load(); n != 1 {
			t.Errorf("debited %d times", n)
		}
	}
}

func TestAnAnswerThatTheServerDecidedSettles(t *testing.T) {
	w := newWorld(t, newQueue(t))
	w.loseResponses.Store(2)
	letter := w.exhaust(t, "broke")
	answer, err := deadletter.Replay(t.Context(), w.queue, letter.GetId(), w.conn)
	if err != nil || status.Code(answer.Err) != codes.FailedPrecondition || !answer.Settled || !answer.Replayed || answer.Reply != nil {
		t.Errorf("Replay = %+v, %v", answer, err)
	}
	if n := len(letters(t, w.queue)); n != 0 {
		t.Errorf("%d letters are left", n)
	}
}

func TestAReplayThatFailsKeepsItsLetterAndMakesNoOther(t *testing.T) {
	w := newWorld(t, newQueue(t))
	w.loseRequests.Store(2)
	before := w.exhaust(t, "alice")
	w.loseRequests.Store(2)
	answer, err := deadletter.Replay(t.Context(), w.queue, before.GetId(), w.conn)
	if err != nil || status.Code(answer.Err) != codes.Unavailable || answer.Settled {
		t.Fatalf("Replay = %+v, %v", answer, err)
	}
	after := one(t, w.queue)
	if after.GetAttempts() != before.GetAttempts()+1 || after.GetLastAttemptTime().AsTime().Before(before.GetLastAttemptTime().AsTime()) {
		t.Errorf("the letter is %v, was %v", after, before)
	}
	if after.GetIdempotencyKey() != before.GetIdempotencyKey() || !proto.Equal(after.GetFirstAttemptTime(), before.GetFirstAttemptTime()) {
		t.Error("the replay changed the letter's key or its first time")
	}
}

// An error that the suite makes itself, such as for a reused key, says nothing
// of the operation's outcome.
func TestARefusalIsNoOutcome(t *testing.T) {
	w := newWorld(t, newQueue(t))
	w.loseRequests.Store(2)
	letter := w.exhaust(t, "alice")
	ctx := idempotency.WithKey(t.Context(), letter.GetIdempotencyKey())
	if _, err := w.client.Debit(ctx, &ledgerv1.DebitRequest{AccountId: "another request"}); err != nil {
		t.Fatal(err)
	}
	answer, err := deadletter.Replay(t.Context(), w.queue, letter.GetId(), w.conn)
	if err != nil || status.Code(answer.Err) != codes.FailedPrecondition || answer.Settled {
		t.Errorf("Replay = %+v, %v", answer, err)
	}
	one(t, w.queue)
}

func TestReplaysOfOneLetterAtOnceExecuteItOnce(t *testing.T) {
	w := newWorld(t, newQueue(t))
	w.loseRequests.Store(2)
	letter := w.exhaust(t, "alice")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			_, err := deadletter.Replay(t.Context(), w.queue, letter.GetId(), w.conn)
			if err != nil && !errors.Is(err, deadletter.ErrNotFound) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := w.ledger.debits.Load(); n != 1 {
		t.Errorf("debited %d times", n)
	}
	if n := len(letters(t, w.queue)); n != 0 {
		t.Errorf("%d letters are left", n)
	}
}

func TestAReplayByAContextWithAnotherKeyStillSendsTheLetters(t *testing.T) {
	w := newWorld(t, newQueue(t))
	w.loseResponses.Store(2)
	letter := w.exhaust(t, "alice")
	ctx := metadata.AppendToOutgoingContext(t.Context(), "idempotency-key", "of-another-call", "idempotency-key", "of-a-third")
	answer, err := deadletter.Replay(idempotency.WithKey(ctx, "of another call"), w.queue, letter.GetId(), w.conn)
	if err != nil || answer.Err != nil || !answer.Replayed {
		t.Errorf("Replay = %+v, %v", answer, err)
	}
}

// An INVALID_ARGUMENT that the client itself says of how it is called is no
// answer of the server's, and settles nothing.
func TestALetterThatTheClientRefusesToSendStays(t *testing.T) {
	w := newWorld(t, newQueue(t))
	w.loseRequests.Store(2)
	letter := w.exhaust(t, "alice")
	answer, err := deadletter.Replay(retry.Own(t.Context(), "night job"), w.queue, letter.GetId(), w.conn)
	if status.Code(err) != codes.InvalidArgument || answer.Settled {
		t.Errorf("Replay = %+v, %v", answer, err)
	}
	if kept := one(t, w.queue); !proto.Equal(kept, letter) {
		t.Errorf("the letter is now %v", kept)
	}
}

// Retries may take long, and the server forgets meanwhile.
func TestNoAttemptOfAReplayIsMadeAfterTheWindow(t *testing.T) {
	w := newWorld(t, newQueue(t))
	w.loseRequests.Store(2)
	letter := w.exhaust(t, "alice")
	var deadline time.Time
	conn := connFunc(func(ctx context.Context, _ string, _ []grpc.CallOption) error {
		deadline, _ = ctx.Deadline()
		return status.Error(codes.Unavailable, "down")
	})
	if _, err := deadletter.Replay(t.Context(), w.queue, letter.GetId(), conn, deadletter.WithWindow(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if want := letter.GetFirstAttemptTime().AsTime().Add(time.Hour); !deadline.Equal(want) {
		t.Errorf("the replay may go on until %v, want %v", deadline, want)
	}
}

// connFunc is a connection that answers by itself.
type connFunc func(ctx context.Context, method string, opts []grpc.CallOption) error

func (f connFunc) Invoke(ctx context.Context, method string, _, _ any, opts ...grpc.CallOption) error {
	return f(ctx, method, opts)
}

func (connFunc) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errors.ErrUnsupported
}

func TestALetterThatAnotherReplaySettledMeanwhileIsSettled(t *testing.T) {
	for name, answer := range map[string]error{"answered": nil, "not answered": status.Error(codes.Unavailable, "down")} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newQueue(t))
			w.loseRequests.Store(2)
			letter := w.exhaust(t, "alice")
			conn := connFunc(func(ctx context.Context, _ string, _ []grpc.CallOption) error {
				return errors.Join(w.queue.Remove(ctx, letter.GetId()), answer)
			})
			if _, err := deadletter.Replay(t.Context(), w.queue, letter.GetId(), conn); err != nil {
				t.Errorf("Replay: %v", err)
			}
			if n := len(letters(t, w.queue)); n != 0 {
				t.Errorf("%d letters are left", n)
			}
		})
	}
}

func TestAnAnswerSettlesThoughTheCallerIsGone(t *testing.T) {
	w := newWorld(t, newQueue(t))
	w.loseRequests.Store(2)
	letter := w.exhaust(t, "alice")
	ctx, cancel := context.WithCancel(t.Context())
	conn := connFunc(func(context.Context, string, []grpc.CallOption) error {
		cancel()
		return nil
	})
	answer, err := deadletter.Replay(ctx, w.queue, letter.GetId(), conn)
	if err != nil || !answer.Settled {
		t.Errorf("Replay = %+v, %v", answer, err)
	}
	if n := len(letters(t, w.queue)); n != 0 {
		t.Errorf("%d letters are left", n)
	}
}

// A server that answers an error may send nothing but trailers.
func TestTheMarkerOfAReplayMayStandInTheTrailerAlone(t *testing.T) {
	w := newWorld(t, newQueue(t))
	w.loseResponses.Store(2)
	letter := w.exhaust(t, "alice")
	conn := connFunc(func(_ context.Context, _ string, opts []grpc.CallOption) error {
		for _, o := range opts {
			if o, ok := o.(grpc.TrailerCallOption); ok {
				*o.TrailerAddr = metadata.Pairs("idempotency-replayed", "true")
			}
		}
		return status.Error(codes.NotFound, "no such account")
	})
	answer, err := deadletter.Replay(t.Context(), w.queue, letter.GetId(), conn)
	if err != nil || !answer.Replayed || !answer.Settled || status.Code(answer.Err) != codes.NotFound {
		t.Errorf("Replay = %+v, %v", answer, err)
	}
}

// A call that is made for a replay, such as one for a token, is no replay.
func TestACallWithinAReplayGetsItsOwnLetter(t *testing.T) {
	w := newWorld(t, newQueue(t))
	w.loseRequests.Store(2)
	letter := w.exhaust(t, "alice")
	conn := connFunc(func(ctx context.Context, _ string, _ []grpc.CallOption) error {
		w.loseRequests.Store(2)
		_, err := w.client.Credit(ctx, &ledgerv1.CreditRequest{})
		return err
	})
	if _, err := deadletter.Replay(t.Context(), w.queue, letter.GetId(), conn); err != nil {
		t.Fatal(err)
	}
	if n := len(letters(t, w.queue)); n != 2 {
		t.Errorf("%d letters, want the debit's and the credit's", n)
	}
}

func TestASealedLetterIsOpenedForItsReplay(t *testing.T) {
	flip := func(_ context.Context, l *deadletter.Letter) error {
		for i := range l.GetRequest().GetValue() {
			l.Request.Value[i] ^= 0xff
		}
		return nil
	}
	w := newWorld(t, newQueue(t), deadletter.WithSeal(flip))
	w.loseRequests.Store(2)
	sealed := w.exhaust(t, "alice")
	if strings.Contains(string(sealed.GetRequest().GetValue()), "alice") {
		t.Error("the letter was kept unsealed")
	}
	if _, err := deadletter.Replay(t.Context(), w.queue, sealed.GetId(), w.conn); !errors.Is(err, deadletter.ErrUnsendable) {
		t.Errorf("Replay of a sealed letter: %v, want ErrUnsendable", err)
	}
	w.loseRequests.Store(2)
	if _, err := deadletter.Replay(t.Context(), w.queue, sealed.GetId(), w.conn, deadletter.WithOpen(flip)); err != nil {
		t.Fatal(err)
	}
	if kept := one(t, w.queue); !proto.Equal(kept.GetRequest(), sealed.GetRequest()) {
		t.Error("the opened letter was kept")
	}
	answer, err := deadletter.Replay(t.Context(), w.queue, sealed.GetId(), w.conn, deadletter.WithOpen(flip))
	if err != nil || !answer.Settled {
		t.Errorf("Replay = %+v, %v", answer, err)
	}
}

func TestALetterThatCannotBeSentStays(t *testing.T) {
	request := func(m proto.Message) *anypb.Any {
		a, err := anypb.New(m)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	debit, read := ledgerv1.LedgerService_Debit_FullMethodName, ledgerv1.LedgerService_GetAccount_FullMethodName
	now := timestamppb.Now()
	ago := func(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(time.Now().Add(-d)) }
	for _, tt := range []struct {
		name   string
		letter *deadletter.Letter
		opts   []deadletter.ReplayOption
		want   error
	}{
		{"because its method is unknown", &deadletter.Letter{Method: "/none.v1.None/Debit"}, nil, deadletter.ErrUnsendable},
		{"because it has no request", &deadletter.Letter{Method: debit, IdempotencyKey: "k", FirstAttemptTime: now}, nil, deadletter.ErrUnsendable},
		{"because its request is another's", &deadletter.Letter{Method: debit, IdempotencyKey: "k", FirstAttemptTime: now,
			Request: request(wrapperspb.String("redacted"))}, nil, deadletter.ErrUnsendable},
		{"because its type is unknown", &deadletter.Letter{Method: debit, IdempotencyKey: "k", FirstAttemptTime: now,
			Request: &anypb.Any{TypeUrl: "type.googleapis.com/none.v1.None"}}, nil, deadletter.ErrUnsendable},
		{"because it lost its key", &deadletter.Letter{Method: debit, FirstAttemptTime: now,
			Request: request(&ledgerv1.DebitRequest{})}, nil, deadletter.ErrUnsendable},
		{"or goes out without a key where the caller calls it safe", &deadletter.Letter{Method: debit, FirstAttemptTime: now,
			Request: request(&ledgerv1.DebitRequest{})}, []deadletter.ReplayOption{deadletter.WithSafe()}, nil},
		{"because its key is malformed", &deadletter.Letter{Method: debit, IdempotencyKey: "k k", FirstAttemptTime: now,
			Request: request(&ledgerv1.DebitRequest{})}, nil, deadletter.ErrUnsendable},
		{"because the server may have forgotten it", &deadletter.Letter{Method: debit, IdempotencyKey: "k", FirstAttemptTime: ago(23 * time.Hour),
			Request: request(&ledgerv1.DebitRequest{})}, nil, deadletter.ErrTooOld},
		{"because it is older than the window", &deadletter.Letter{Method: debit, IdempotencyKey: "k", FirstAttemptTime: ago(time.Hour),
			Request: request(&ledgerv1.DebitRequest{})}, []deadletter.ReplayOption{deadletter.WithWindow(time.Hour)}, deadletter.ErrTooOld},
		{"because nobody knows how old it is", &deadletter.Letter{Method: debit, IdempotencyKey: "k",
			Request: request(&ledgerv1.DebitRequest{})}, nil, deadletter.ErrTooOld},
		{"because a clock was set back", &deadletter.Letter{Method: debit, IdempotencyKey: "k", FirstAttemptTime: ago(-3 * time.Hour),
			Request: request(&ledgerv1.DebitRequest{})}, nil, deadletter.ErrTooOld},
		{"or goes out where clocks differ a little", &deadletter.Letter{Method: debit, IdempotencyKey: "k", FirstAttemptTime: ago(-time.Minute),
			Request: request(&ledgerv1.DebitRequest{})}, nil, nil},
		{"or goes out where it is within the window", &deadletter.Letter{Method: debit, IdempotencyKey: "k", FirstAttemptTime: ago(time.Hour),
			Request: request(&ledgerv1.DebitRequest{})}, nil, nil},
		{"or at any age where it is safe", &deadletter.Letter{Method: read, FirstAttemptTime: ago(1000 * time.Hour),
			Request: request(&ledgerv1.GetAccountRequest{})}, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, newQueue(t))
			tt.letter.Id = "1"
			if err := w.queue.Put(t.Context(), tt.letter); err != nil {
				t.Fatal(err)
			}
			answer, err := deadletter.Replay(t.Context(), w.queue, "1", w.conn, tt.opts...)
			if !errors.Is(err, tt.want) {
				t.Fatalf("Replay: %v, want %v", err, tt.want)
			}
			if tt.want == nil {
				if !answer.Settled {
					t.Errorf("Replay = %+v", answer)
				}
				return
			}
			if n := w.ledger.debits.Load() + w.ledger.reads.Load(); n != 0 {
				t.Errorf("the ledger was called %d times", n)
			}
			if kept := one(t, w.queue); !proto.Equal(kept, tt.letter) {
				t.Errorf("the letter is now %v", kept)
			}
		})
	}
}

func TestAReplayOfNoLetter(t *testing.T) {
	w := newWorld(t, newQueue(t))
	if _, err := deadletter.Replay(t.Context(), w.queue, "none", w.conn); !errors.Is(err, deadletter.ErrNotFound) {
		t.Errorf("Replay: %v, want ErrNotFound", err)
	}
	_, err := deadletter.Replay(t.Context(), nil, "none", nil, deadletter.WithWindow(0), nil, deadletter.WithOpen(nil))
	for _, option := range []string{"queue is nil", "conn is nil", "WithWindow", "option 1 is nil", "WithOpen"} {
		if err == nil || !strings.Contains(err.Error(), option) {
			t.Errorf("%v does not name %s", err, option)
		}
	}
}
