package deadletter_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/retrysafe/retrysafe/gen/ledger/v1"
	"github.com/retrysafe/retrysafe/interceptor/deadletter"
	"github.com/retrysafe/retrysafe/interceptor/deadletter/sqlitequeue"
	"github.com/retrysafe/retrysafe/interceptor/idempotency"
	"github.com/retrysafe/retrysafe/interceptor/retry"
)

func TestAnExhaustedCallBecomesALetter(t *testing.T) {
	w := newWorld(t, newQueue(t))
	w.loseRequests.Store(2)
	req := &ledgerv1.DebitRequest{AccountId: "alice", Amount: &ledgerv1.Money{Currency: "EUR", MinorUnits: 1250}}
	began := time.Now()
	_, err := w.client.Debit(idempotency.WithKey(t.Context(), "order-42"), req)

	var ex *retry.ExhaustedError
	if !errors.As(err, &ex) || ex.Reason != retry.ReasonMaxAttempts || status.Code(err) != codes.Unavailable {
		t.Errorf("the caller got %v, want the call's own error", err)
	}
	letter := one(t, w.queue)
	sent, err := letter.GetRequest().UnmarshalNew()
	if err != nil || !proto.Equal(sent, req) {
		t.Errorf("the letter's request is %v, %v", sent, err)
	}
	first, last := letter.GetFirstAttemptTime().AsTime(), letter.GetLastAttemptTime().AsTime()
	if first.Before(began.Add(-time.Second)) || last.Before(first) || last.After(time.Now().Add(time.Second)) {
		t.Errorf("the letter's times are %v and %v, the call began at %v", first, last, began)
	}
	letter.Request, letter.FirstAttemptTime, letter.LastAttemptTime = nil, nil, nil
	want := &deadletter.Letter{
		Id:             letter.GetId(),
		Target:         "passthrough:///ledger",
		Method:         ledgerv1.LedgerService_Debit_FullMethodName,
		IdempotencyKey: "order-42",
		Reason:         "MAX_ATTEMPTS",
		Attempts:       2,
		LastStatus:     &deadletter.Status{Code: int32(codes.Unavailable), Message: "the request was lost"},
	}
	if letter.GetId() == "" || !proto.Equal(letter, want) {
		t.Errorf("letter = %v\nwant %v", letter, want)
	}
}

func TestALetterKeepsTheKeyThatWasMade(t *testing.T) {
	w := newWorld(t, newQueue(t))
	w.loseRequests.Store(2)
	_, err := w.client.Debit(t.Context(), &ledgerv1.DebitRequest{})
	var ex *retry.ExhaustedError
	if !errors.As(err, &ex) {
		t.Fatal(err)
	}
	if k := one(t, w.queue).GetIdempotencyKey(); k == "" || k != ex.IdempotencyKey() {
		t.Error("the letter does not hold the key of the attempts")
	}
}

func TestACallerWhoseDeadlineHasPassedGetsALetter(t *testing.T) {
	w := newWorld(t, newQueue(t))
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	<-ctx.Done()
	_, err := w.client.Debit(ctx, &ledgerv1.DebitRequest{})
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("the caller got %v", err)
	}
	if reason := one(t, w.queue).GetReason(); reason != "DEADLINE" {
		t.Errorf("the letter's reason is %s", reason)
	}
}

func TestWhatGetsNoLetter(t *testing.T) {
	for _, tt := range []struct {
		name string
		lose int64
		call func(context.Context, ledgerv1.LedgerServiceClient) error
		code codes.Code
	}{
		{"a success", 0, func(ctx context.Context, c ledgerv1.LedgerServiceClient) error {
			_, err := c.Debit(ctx, &ledgerv1.DebitRequest{})
			return err
		}, codes.OK},
		{"a success at the second attempt", 1, func(ctx context.Context, c ledgerv1.LedgerServiceClient) error {
			_, err := c.Debit(ctx, &ledgerv1.DebitRequest{})
			return err
		}, codes.OK},
		{"what the server decided", 0, func(ctx context.Context, c ledgerv1.LedgerServiceClient) error {
			_, err := c.Debit(ctx, &ledgerv1.DebitRequest{AccountId: "broke"})
			return err
		}, codes.FailedPrecondition},
		{"a call that may not be retried", 1, func(ctx context.Context, c ledgerv1.LedgerServiceClient) error {
			_, err := c.Debit(ctx, &ledgerv1.DebitRequest{}, retry.CallSafety(retry.SafetyUnsafe))
			return err
		}, codes.Unavailable},
		{"a call whose retries belong to a layer above", 1, func(ctx context.Context, c ledgerv1.LedgerServiceClient) error {
			_, err := c.Debit(retry.Own(ctx, "loop"), &ledgerv1.DebitRequest{})
			return err
		}, codes.Unavailable},
		{"a call without retries", 1, func(ctx context.Context, c ledgerv1.LedgerServiceClient) error {
			_, err := c.Debit(ctx, &ledgerv1.DebitRequest{}, retry.Disable())
			return err
		}, codes.Unavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, newQueue(t))
			w.loseRequests.Store(tt.lose)
			if err := tt.call(t.Context(), w.client); status.Code(err) != tt.code {
				t.Errorf("the caller got %v, want %v", err, tt.code)
			}
			if n := len(letters(t, w.queue)); n != 0 {
				t.Errorf("%d letters", n)
			}
		})
	}
}

// call makes one debit through the interceptor alone; below answers it.
func call(t *testing.T, queue deadletter.Queue, req any, below func() error) error {
	t.Helper()
	letters, err := deadletter.UnaryClientInterceptor(queue)
	if err != nil {
		t.Fatal(err)
	}
	invoke := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return below() }
	return letters(t.Context(), ledgerv1.LedgerService_Debit_FullMethodName, req, nil, nil, invoke)
}

// exhausts returns the error of a call of method that answer exhausts.
func exhausts(t *testing.T, method string, answer error) error {
	t.Helper()
	retries, err := retry.UnaryClientInterceptor(retry.WithMethodSafety("*", retry.SafetySafe), retry.WithPolicy(retry.Policy{MaxAttempts: 1}))
	if err != nil {
		t.Fatal(err)
	}
	return retries(t.Context(), method, nil, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
		return answer
	})
}

// A server in another language may send a message of any bytes.
func TestALetterIsKeptWhateverTheStatusSays(t *testing.T) {
	queue := newQueue(t)
	err := call(t, queue, &ledgerv1.DebitRequest{}, func() error {
		return exhausts(t, ledgerv1.LedgerService_Debit_FullMethodName, status.Error(codes.Unavailable, "down \xff!"))
	})
	var lost *deadletter.QueueError
	if errors.As(err, &lost) {
		t.Fatal(err)
	}
	if got := one(t, queue).GetLastStatus().GetMessage(); got != "down \uFFFD!" {
		t.Errorf("the letter's status says %q", got)
	}
}

// What an interceptor asks before the call, such as for a token, is another
// call, and its exhaustion says nothing of this one's request.
func TestAnotherCallsExhaustionIsNotThisOnes(t *testing.T) {
	queue := newQueue(t)
	err := call(t, queue, &ledgerv1.DebitRequest{}, func() error {
		return fmt.Errorf("ask for a token: %w", exhausts(t, "/auth.v1.Auth/Token", status.Error(codes.Unavailable, "down")))
	})
	if status.Code(err) != codes.Unavailable {
		t.Errorf("the caller got %v", err)
	}
	if kept := letters(t, queue); len(kept) != 0 {
		t.Errorf("kept %v", kept)
	}
}

func TestARequestThatIsNoMessageIsReported(t *testing.T) {
	queue := newQueue(t)
	err := call(t, queue, "a text", func() error {
		return exhausts(t, ledgerv1.LedgerService_Debit_FullMethodName, status.Error(codes.Unavailable, "down"))
	})
	var lost *deadletter.QueueError
	if !errors.As(err, &lost) || status.Code(err) != codes.Unavailable {
		t.Errorf("the caller got %v, want both errors", err)
	}
}

func TestAQueueThatIsDownDoesNotHideTheCallsError(t *testing.T) {
	w := newWorld(t, brokenQueue{})
	w.loseRequests.Store(2)
	_, err := w.client.Debit(t.Context(), &ledgerv1.DebitRequest{})
	var both *deadletter.QueueError
	var ex *retry.ExhaustedError
	if !errors.As(err, &both) || !errors.As(err, &ex) || !errors.Is(err, errOutage) || !errors.Is(both.Queue(), errOutage) {
		t.Errorf("the caller got %v, want both errors", err)
	}
	if st := status.Convert(err); st.Code() != codes.Unavailable || st.Message() != "the request was lost" {
		t.Errorf("its status is %v, want the call's", st)
	}
}

// slowQueue is one that answers when its caller has given up.
type slowQueue struct{ deadletter.Queue }

func (slowQueue) Put(ctx context.Context, _ *deadletter.Letter) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestAQueueThatHangsHoldsTheCallerForItsTimeoutAlone(t *testing.T) {
	w := newWorld(t, slowQueue{}, deadletter.WithPutTimeout(time.Millisecond))
	w.loseRequests.Store(2)
	_, err := w.client.Debit(t.Context(), &ledgerv1.DebitRequest{})
	if !errors.Is(err, context.DeadlineExceeded) || status.Code(err) != codes.Unavailable {
		t.Errorf("the caller got %v", err)
	}
}

func TestASealThatFailsKeepsNothing(t *testing.T) {
	refused := errors.New("no encryption key")
	w := newWorld(t, newQueue(t), deadletter.WithSeal(func(context.Context, *deadletter.Letter) error { return refused }))
	w.loseRequests.Store(2)
	_, err := w.client.Debit(t.Context(), &ledgerv1.DebitRequest{})
	if !errors.Is(err, refused) || status.Code(err) != codes.Unavailable {
		t.Errorf("the caller got %v", err)
	}
	if n := len(letters(t, w.queue)); n != 0 {
		t.Errorf("%d letters", n)
	}
}

func TestErrorsShowNeitherKeyNorRequest(t *testing.T) {
	w := newWorld(t, brokenQueue{})
	w.loseRequests.Store(2)
	_, err := w.client.Debit(idempotency.WithKey(t.Context(), "secret-key"), &ledgerv1.DebitRequest{AccountId: "secret-account"})
	for _, shown := range []string{err.Error(), fmt.Sprintf("%v %+v", err, err)} {
		if strings.Contains(shown, "secret") {
			t.Errorf("the error shows %s", shown)
		}
	}
}

func TestWrongOptionsAreReportedTogether(t *testing.T) {
	for _, queue := range []deadletter.Queue{nil, (*sqlitequeue.Queue)(nil)} {
		_, err := deadletter.UnaryClientInterceptor(queue, deadletter.WithPutTimeout(-1), nil, deadletter.WithSeal(nil))
		for _, part := range []string{"queue is nil", "WithPutTimeout", "option 1 is nil", "WithSeal"} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%v does not say %q", err, part)
			}
		}
	}
}
