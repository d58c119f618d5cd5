package retry_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrysafe/retrysafe/interceptor/retry"
)

const method = "/test.v1.Test/Call"

var (
	errDown   = status.Error(codes.Unavailable, "down")
	errSlow   = status.Error(codes.DeadlineExceeded, "slow")
	errAbsent = status.Error(codes.NotFound, "absent")
)

// seen is what a server would see of an attempt.
type seen struct {
	at      time.Time
	md      metadata.MD
	ctx     context.Context
	options []grpc.CallOption
	reply   string // what the reply held when the attempt began
}

// server stands for all that is below the interceptor.
type server struct {
	mu       sync.Mutex
	attempts []seen
	answer   func(n int, s seen, reply *wrapperspb.StringValue) error // n counts from 1
}

// answering returns a server that gives these answers in turn, and the last of
// them from then on. A nil answers the attempt.
func answering(answers ...error) *server {
	return &server{answer: func(n int, _ seen, _ *wrapperspb.StringValue) error {
		return answers[min(n, len(answers))-1]
	}}
}

func (s *server) invoke(ctx context.Context, _ string, _, reply any, _ *grpc.ClientConn, opts ...grpc.CallOption) error {
	md, _ := metadata.FromOutgoingContext(ctx)
	message, _ := reply.(*wrapperspb.StringValue)
	at := seen{at: time.Now(), md: md, ctx: ctx, options: opts, reply: message.GetValue()}
	s.mu.Lock()
	s.attempts = append(s.attempts, at)
	n := len(s.attempts)
	s.mu.Unlock()
	return s.answer(n, at, message)
}

func (s *server) calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.attempts)
}

// values returns the values of a metadata name, attempt by attempt.
func (s *server) values(name string) [][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all [][]string
	for _, a := range s.attempts {
		all = append(all, a.md.Get(name))
	}
	return all
}

// waits returns the times between the starts of attempts.
func (s *server) waits() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []time.Duration
	for i := 1; i < len(s.attempts); i++ {
		all = append(all, s.attempts[i].at.Sub(s.attempts[i-1].at))
	}
	return all
}

// setTrailer does what grpc-go does at the end of an attempt.
func (s seen) setTrailer(kv ...string) {
	for _, o := range s.options {
		if o, ok := o.(grpc.TrailerCallOption); ok {
			*o.TrailerAddr = metadata.Pairs(kv...)
		}
	}
}

// setHeader is setTrailer's twin.
func (s seen) setHeader(kv ...string) {
	for _, o := range s.options {
		if o, ok := o.(grpc.HeaderCallOption); ok {
			*o.HeaderAddr = metadata.Pairs(kv...)
		}
	}
}

// client is an interceptor in front of a server.
type client struct {
	t         testing.TB
	intercept grpc.UnaryClientInterceptor
	server    *server
}

func (c client) call(ctx context.Context, opts ...grpc.CallOption) error {
	return c.callMethod(ctx, method, opts...)
}

func (c client) callMethod(ctx context.Context, method string, opts ...grpc.CallOption) error {
	return c.intercept(ctx, method, new(wrapperspb.StringValue), new(wrapperspb.StringValue), nil, c.server.invoke, opts...)
}

func newInterceptor(tb testing.TB, opts ...retry.Option) grpc.UnaryClientInterceptor {
	tb.Helper()
	intercept, err := retry.UnaryClientInterceptor(opts...)
	if err != nil {
		tb.Fatal(err)
	}
	return intercept
}

// newClient returns a client whose methods are all Safe, unless opts say more.
func newClient(tb testing.TB, s *server, opts ...retry.Option) client {
	tb.Helper()
	opts = append([]retry.Option{retry.WithMethodSafety("*", retry.SafetySafe)}, opts...)
	return client{tb, newInterceptor(tb, opts...), s}
}

var keyed = retry.WithMethodSafety("*", retry.SafetyKeyed)

// exhausted returns err as an ExhaustedError with that reason.
func exhausted(t *testing.T, err error, want retry.Reason) *retry.ExhaustedError {
	t.Helper()
	var ex *retry.ExhaustedError
	if !errors.As(err, &ex) {
		t.Fatalf("error is %T (%v), want an ExhaustedError", err, err)
	}
	if ex.Reason != want {
		t.Fatalf("reason is %v (%v), want %v", ex.Reason, err, want)
	}
	return ex
}

func wantCode(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("code is %v (%v), want %v", got, err, want)
	}
}

func wantCalls(t *testing.T, s *server, want int) {
	t.Helper()
	if got := s.calls(); got != want {
		t.Errorf("the server saw %d attempts, want %d", got, want)
	}
}

// bubble runs a subtest in virtual time.
func bubble(t *testing.T, name string, f func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// dialed returns a connection that is never used but for its target.
func dialed(t *testing.T, target string) *grpc.ClientConn {
	t.Helper()
	cc, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	return cc
}
