package deadletter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/retrysafe/retrysafe/interceptor/internal/key"
	"github.com/retrysafe/retrysafe/interceptor/internal/message"
	"github.com/retrysafe/retrysafe/interceptor/internal/nils"
	"github.com/retrysafe/retrysafe/interceptor/retry"
)

// UnaryClientInterceptor returns an interceptor that puts a [Letter] into queue
// for each call that exhausted its retries. Chain it before the retry
// interceptor. It reports every mistake in its options.
//
// The caller gets the call's own error. Where the letter could not be kept, it
// gets a [*QueueError] that holds both.
func UnaryClientInterceptor(queue Queue, opts ...Option) (grpc.UnaryClientInterceptor, error) {
	s, err := newSettings(opts)
	if nils.Is(queue) {
		err = errors.Join(errors.New("deadletter: UnaryClientInterceptor: queue is nil"), err)
	}
	if err != nil {
		return nil, err
	}
	k := &keeper{queue: queue, settings: s}
	return k.intercept, nil
}

// keeper keeps what is exhausted.
type keeper struct {
	queue Queue
	settings
}

func (k *keeper) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if isReplay(ctx, method) {
		return invoker(ctx, method, req, reply, cc, opts...)
	}
	start := time.Now()
	err := invoker(ctx, method, req, reply, cc, opts...)
	if err == nil {
		return nil
	}
	var ex *retry.ExhaustedError
	if !errors.As(err, &ex) || !ex.Reason.BudgetExhausted() {
		return err
	}
	if ex.Method != method { // another call's, such as one for a token, that an interceptor made
		return err
	}
	if kept := k.keep(ctx, cc, req, start, ex); kept != nil {
		return &QueueError{err: err, queue: kept}
	}
	return err
}

// keep writes the letter with a context of its own: the caller's deadline may
// be what ended the call.
func (k *keeper) keep(ctx context.Context, cc *grpc.ClientConn, req any, start time.Time, ex *retry.ExhaustedError) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.putTimeout)
	defer cancel()
	letter, err := newLetter(cc, req, start, ex)
	if err != nil {
		return err
	}
	if k.seal != nil {
		if err := k.seal(ctx, letter); err != nil {
			return fmt.Errorf("deadletter: seal: %w", err)
		}
	}
	return k.queue.Put(ctx, letter)
}

func newLetter(cc *grpc.ClientConn, req any, start time.Time, ex *retry.ExhaustedError) (*Letter, error) {
	m, ok := message.Of(req)
	if !ok {
		return nil, fmt.Errorf("deadletter: a %T is no protobuf message and cannot be kept", req)
	}
	request, err := anypb.New(m)
	if err != nil {
		return nil, fmt.Errorf("deadletter: encode the request: %w", err)
	}
	letter := &Letter{
		Id:               key.New(), // its order is that of time
		Method:           ex.Method,
		Request:          request,
		IdempotencyKey:   ex.IdempotencyKey(),
		Reason:           ex.Reason.String(),
		Attempts:         uint32(ex.Attempts),
		FirstAttemptTime: timestamppb.New(start),
		LastAttemptTime:  timestamppb.Now(),
		LastStatus:       statusOf(ex),
	}
	if cc != nil {
		letter.Target = strings.ToValidUTF8(cc.Target(), "\uFFFD")
	}
	return letter, nil
}

// statusOf returns the status of err. Its message may hold any bytes: gRPC
// sends it percent-encoded, and protobuf takes UTF-8 alone.
func statusOf(err error) *Status {
	st := status.Convert(err).Proto()
	return &Status{Code: st.GetCode(), Message: strings.ToValidUTF8(st.GetMessage(), "\uFFFD"), Details: st.GetDetails()}
}

// QueueError says that a call failed and that its letter could not be kept
// either. errors.Is and errors.As find both; status.Code is the call's.
type QueueError struct {
	err   error // the call's
	queue error
}

// Error names both.
func (e *QueueError) Error() string {
	return fmt.Sprintf("%v; and its dead letter was not kept: %v", e.err, e.queue)
}

// Unwrap returns the call's error and the queue's.
func (e *QueueError) Unwrap() []error { return []error{e.err, e.queue} }

// GRPCStatus returns the status of the call.
func (e *QueueError) GRPCStatus() *status.Status { return status.Convert(e.err) }

// Queue returns what the queue, or the function of [WithSeal], answered.
func (e *QueueError) Queue() error { return e.queue }
