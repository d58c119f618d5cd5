package idempotency_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/fingerprint"
	"github.com/retrysafe/retrysafe/interceptor/idempotency"
	"github.com/retrysafe/retrysafe/interceptor/internal/wire"
)

// stubStore answers every claim alike.
type stubStore struct {
	promise dedup.Promise
	answer  dedup.Answer
	err     error
}

func (s stubStore) Claim(context.Context, dedup.ClaimRequest) (dedup.Answer, error) {
	return s.answer, s.err
}
func (s stubStore) Promise() dedup.Promise { return s.promise }

// stubClaim is a claim whose outcome is never recorded.
type stubClaim struct{ err error }

func (stubClaim) Fence() uint64                                      { return 1 }
func (stubClaim) Attempt() int                                       { return 1 }
func (stubClaim) Context(ctx context.Context) context.Context        { return ctx }
func (c stubClaim) Complete(context.Context, dedup.Completion) error { return c.err }
func (stubClaim) Renew(context.Context, time.Duration) error         { return nil }
func (stubClaim) Release(context.Context) error                      { return nil }

func TestEveryRefusalHasItsReason(t *testing.T) {
	down := errors.New("connection refused")
	f, err := fingerprint.Message(request("a"))
	if err != nil {
		t.Fatal(err)
	}
	newer := dedup.Fingerprint{Version: 99}
	for _, tt := range []struct {
		name     string
		store    stubStore
		code     codes.Code
		reason   wire.Reason
		pushback bool
		runs     int64
	}{
		{name: "reused", store: stubStore{answer: dedup.Answer{State: dedup.Reused, Fingerprint: dedup.Fingerprint{Version: f.Version}}},
			code: codes.FailedPrecondition, reason: wire.ReasonKeyReused},
		{name: "in progress", store: stubStore{answer: dedup.Answer{State: dedup.InProgress}},
			code: codes.Unavailable, reason: wire.ReasonInProgress, pushback: true},
		{name: "the store is away", store: stubStore{err: down},
			code: codes.Unavailable, reason: wire.ReasonStoreUnavailable, pushback: true},
		{name: "the store is full", store: stubStore{err: dedup.ErrFull},
			code: codes.ResourceExhausted, reason: wire.ReasonStoreFull},
		{name: "unknown", store: stubStore{answer: dedup.Answer{State: dedup.Unknown}},
			code: codes.Aborted, reason: wire.ReasonOutcomeUnknown},
		{name: "a damaged record", store: stubStore{answer: dedup.Answer{State: dedup.Completed, Record: []byte("damaged")}},
			code: codes.Internal, reason: wire.ReasonRecordUnreadable},
		{name: "a fingerprint of another version", store: stubStore{answer: dedup.Answer{State: dedup.Reused, Fingerprint: newer}},
			code: codes.Internal, reason: wire.ReasonRecordUnreadable},
		{name: "the commit fails", store: stubStore{promise: dedup.ExactlyOnce, answer: dedup.Answer{State: dedup.Claimed, Claim: stubClaim{down}}},
			code: codes.Unavailable, reason: wire.ReasonStoreUnavailable, pushback: true, runs: 1},
		{name: "too large for a transaction", store: stubStore{promise: dedup.ExactlyOnce, answer: dedup.Answer{State: dedup.Claimed, Claim: stubClaim{dedup.ErrTooLarge}}},
			code: codes.ResourceExhausted, reason: wire.ReasonOutcomeTooLarge, runs: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var runs atomic.Int64
			if tt.store.promise == 0 {
				tt.store.promise = dedup.OneAtATime
			}
			s := serve(t, tt.store, func(ctx context.Context, _ string, _ *errdetails.RequestInfo) (*errdetails.ResourceInfo, error) {
				runs.Add(1)
				return &errdetails.ResourceInfo{}, errors.Join(grpc.SetHeader(ctx, metadata.Pairs("etag", "v1")), grpc.SetTrailer(ctx, metadata.Pairs("etag", "v1")))
			}, idempotency.WithWait(time.Millisecond))
			r := s.call(withKey(t, "secret-key"), place, request("a"))
			wantReason(t, r.err, tt.code, tt.reason)
			if runs.Load() != tt.runs {
				t.Errorf("the handler ran %d times, want %d", runs.Load(), tt.runs)
			}
			if r.header["etag"] != nil || r.trailer["etag"] != nil {
				t.Error("what the handler set was sent with a refusal")
			}
			if strings.Contains(r.err.Error(), "refused") || strings.Contains(r.err.Error(), "secret-key") {
				t.Errorf("%v tells too much", r.err)
			}
			checkPushback(t, r, tt.pushback)
		})
	}
}

// checkPushback checks that trailer and RetryInfo say the same.
func checkPushback(t *testing.T, r reply, want bool) {
	t.Helper()
	wait, verdict := wire.ParsePushback(r.trailer.Get(wire.PushbackTrailer))
	if !want {
		if verdict != wire.PushbackNone {
			t.Errorf("pushback %v", wait)
		}
		return
	}
	if verdict != wire.PushbackWait {
		t.Fatalf("no pushback in %v", r.trailer)
	}
	for _, d := range status.Convert(r.err).Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			if d := wait - info.GetRetryDelay().AsDuration(); d < 0 || d > time.Millisecond {
				t.Errorf("the trailer says %v, RetryInfo %v", wait, info.GetRetryDelay().AsDuration())
			}
			return
		}
	}
	t.Error("no RetryInfo")
}

func TestAnOutcomeThatIsTooLargeIsAnsweredOnce(t *testing.T) {
	var runs atomic.Int64
	s := serve(t, dedup.NewMemory(), counting(&runs), idempotency.WithMaxOutcome(100))
	big := request(strings.Repeat("x", 200))
	if r := s.call(withKey(t, "k1"), place, big); r.err != nil {
		t.Fatal(r.err) // the effect stands
	}
	wantReason(t, s.call(withKey(t, "k1"), place, big).err, codes.ResourceExhausted, wire.ReasonOutcomeTooLarge)
	if runs.Load() != 1 {
		t.Errorf("the handler ran %d times", runs.Load())
	}
}

func TestARecordWhoseTypeIsGoneIsNotExecutedAgain(t *testing.T) {
	for name, response := range map[string]dedup.Payload{
		"unknown":       {Type: "gone.v1.Receipt"},
		"another":       {Type: "google.rpc.RequestInfo"},
		"none":          {},
		"no such":       {Type: "google.rpc.ResourceInfo", Value: []byte{0xff}},
		"no name":       {Type: "\xff/../"},
		"not a message": {Type: "google.rpc"},
	} {
		t.Run(name, func(t *testing.T) {
			store := dedup.NewMemory()
			record(t, store, request("a"), dedup.Outcome{Response: response})
			var runs atomic.Int64
			s := serve(t, store, counting(&runs))
			wantReason(t, s.call(withKey(t, "k1"), place, request("a")).err, codes.Internal, wire.ReasonRecordUnreadable)
			if runs.Load() != 0 {
				t.Errorf("the handler ran %d times", runs.Load())
			}
		})
	}
}

// record puts an outcome into store as if place had answered it under k1.
func record(t testing.TB, store dedup.Store, req proto.Message, out dedup.Outcome) {
	t.Helper()
	f, err := fingerprint.Message(req)
	if err != nil {
		t.Fatal(err)
	}
	op := dedup.Operation{Key: dedup.Key{Method: place, ID: "k1"}, Fingerprint: f}
	_, err = dedup.Do(t.Context(), store, op, func(ctx context.Context) (dedup.Outcome, error) {
		ex, _ := dedup.ExecutionFromContext(ctx)
		ex.Settle(dedup.Terminal)
		return out, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestRecordedHeadersAreHeldAgainstTheAllowList(t *testing.T) {
	store := dedup.NewMemory()
	all := map[string][]string{"etag": {"v1"}, "set-cookie": {"s"}, "grpc-status": {"0"}, "idempotency-replayed": {"false"}, "none": {}}
	record(t, store, request("a"), dedup.Outcome{Response: dedup.Payload{Type: "google.rpc.ResourceInfo"}, Header: all, Trailer: all})
	var runs atomic.Int64
	s := serve(t, store, counting(&runs), idempotency.WithReplayHeaders("etag"))
	r := s.call(withKey(t, "k1"), place, request("a"))
	if r.err != nil || r.header["set-cookie"] != nil || len(r.header["etag"]) != 1 || len(r.trailer) != 1 || runs.Load() != 0 {
		t.Errorf("%v, header %v, trailer %v", r.err, r.header, r.trailer)
	}
	if header, _ := r.replayed(); !header {
		t.Error("the replay is not marked")
	}
}

// intercept calls the server side without a network, for tests in virtual
// time. It returns what a client would get.
func intercept(ctx context.Context, s *idempotency.Server, k string, h grpc.UnaryHandler) (*fakeStream, any, error) {
	ctx = metadata.NewIncomingContext(ctx, metadata.Pairs(idempotency.MetadataKey, strings.ReplaceAll(k, " ", "-")))
	stream := new(fakeStream)
	ctx = grpc.NewContextWithServerTransportStream(ctx, stream)
	resp, err := s.Intercept(ctx, request("a"), &grpc.UnaryServerInfo{FullMethod: place}, h)
	return stream, resp, err
}

// fakeStream is a transport stream that keeps what is set.
type fakeStream struct{ header, trailer metadata.MD }

func (s *fakeStream) Method() string { return place }
func (s *fakeStream) SetHeader(md metadata.MD) error {
	s.header = metadata.Join(s.header, md)
	return nil
}
func (s *fakeStream) SendHeader(md metadata.MD) error { return s.SetHeader(md) }
func (s *fakeStream) SetTrailer(md metadata.MD) error {
	s.trailer = metadata.Join(s.trailer, md)
	return nil
}

func newServer(t testing.TB, store dedup.Store, opts ...idempotency.ServerOption) *idempotency.Server {
	t.Helper()
	if registered != nil {
		t.Fatal(registered)
	}
	s, err := idempotency.NewServer(store, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestThePolicyDecidesOfRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, dedup.NewMemory(), idempotency.WithRetention(time.Minute))
		defer s.Close()
		runs := 0
		h := func(context.Context, any) (any, error) {
			runs++
			return &errdetails.ResourceInfo{}, nil
		}
		for _, tt := range []struct {
			after time.Duration
			runs  int
		}{{0, 1}, {time.Hour - 1, 1}, {1, 2}} { // the policy says one hour
			time.Sleep(tt.after)
			if _, _, err := intercept(t.Context(), s, "k1", h); err != nil || runs != tt.runs {
				t.Errorf("%v later: %v, run %d times, want %d", tt.after, err, runs, tt.runs)
			}
		}
	})
}

func TestWhatIsNotKnownIsDecidedByThePolicyAfterTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, dedup.NewMemory(), idempotency.WithLease(time.Second), idempotency.WithWait(time.Millisecond))
		defer s.Close()
		for name, tt := range map[string]struct {
			err  error
			want codes.Code
		}{
			"internal":     {status.Error(codes.Internal, "half done"), codes.Internal},
			"no status":    {errors.New("half done"), codes.Unknown},
			"wrapped time": {fmt.Errorf("query: %w", context.DeadlineExceeded), codes.DeadlineExceeded},
			"cancelled":    {context.Canceled, codes.Canceled},
			"OK":           {okError{}, codes.Unknown},
		} {
			handlerErr := tt.err
			_, _, err := intercept(t.Context(), s, name, func(context.Context, any) (any, error) { return nil, handlerErr })
			if !errors.Is(err, handlerErr) {
				t.Errorf("%s: the handler's own error became %v", name, err)
			}
			never := func(context.Context, any) (any, error) {
				t.Errorf("%s: the handler ran again", name)
				return nil, nil
			}
			_, _, err = intercept(t.Context(), s, name, never)
			wantReason(t, err, codes.Unavailable, wire.ReasonInProgress)
			time.Sleep(time.Second)
			_, _, err = intercept(t.Context(), s, name, never) // the policy says REJECT
			wantReason(t, err, codes.Aborted, wire.ReasonOutcomeUnknown)
		}
	})
}

func TestWhatTheHandlerAnswersIsRecordedAsItsStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, dedup.NewMemory())
		defer s.Close()
		for name, tt := range map[string]struct {
			err  error
			want *status.Status
		}{
			"no status":      {errors.New("half done"), status.New(codes.Unknown, "half done")},
			"a context's":    {fmt.Errorf("query: %w", context.DeadlineExceeded), status.New(codes.DeadlineExceeded, "query: context deadline exceeded")},
			"wrapped status": {fmt.Errorf("debit: %w", status.Error(codes.NotFound, "no")), status.New(codes.NotFound, "debit: rpc error: code = NotFound desc = no")},
			"OK":             {okError{}, status.New(codes.Unknown, "not OK")},
		} {
			_, _, err := intercept(t.Context(), s, name, func(ctx context.Context, _ any) (any, error) {
				ex, _ := dedup.ExecutionFromContext(ctx)
				ex.Settle(dedup.Terminal)
				return nil, tt.err
			})
			if !errors.Is(err, tt.err) {
				t.Errorf("%s: the handler's own error became %v", name, err)
			}
			_, _, err = intercept(t.Context(), s, name, nil)
			if !proto.Equal(status.Convert(err).Proto(), tt.want.Proto()) {
				t.Errorf("%s: replayed %v, want %v", name, err, tt.want)
			}
		}
	})
}

func TestACallerWhoseTimeIsUpGetsItsOwnStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, dedup.NewMemory())
		defer s.Close()
		release := make(chan struct{})
		done := make(chan error)
		go func() {
			_, _, err := intercept(t.Context(), s, "k1", func(context.Context, any) (any, error) {
				<-release
				return &errdetails.ResourceInfo{}, nil
			})
			done <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		stream, _, err := intercept(ctx, s, "k1", nil)
		if status.Code(err) != codes.DeadlineExceeded || len(stream.trailer) != 0 {
			t.Errorf("got %v, trailer %v", err, stream.trailer)
		}
		cancelled, stop := context.WithCancel(t.Context())
		stop()
		if _, _, err := intercept(cancelled, s, "k2", nil); status.Code(err) != codes.Canceled {
			t.Errorf("got %v", err)
		}
		close(release)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestAnInterceptorThatIsInstalledTwiceSaysSo(t *testing.T) {
	store := dedup.NewMemory()
	one, other := newServer(t, store), newServer(t, store)
	defer one.Close()
	defer other.Close()
	for name, inner := range map[string]*idempotency.Server{"the same": one, "another on its store": other} {
		_, _, err := intercept(t.Context(), one, name[:3], func(ctx context.Context, _ any) (any, error) {
			_, _, err := intercept(ctx, inner, name[:3], nil)
			return nil, err
		})
		if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "the interceptor is installed twice") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAHandlerThatCallsItselfIsTold(t *testing.T) {
	s := newServer(t, dedup.NewMemory())
	defer s.Close()
	_, _, err := intercept(t.Context(), s, "k1", func(ctx context.Context, _ any) (any, error) {
		_, _, err := intercept(ctx, s, "k1", nil)
		return nil, err
	})
	if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "its handler called it") {
		t.Errorf("got %v", err)
	}
}

func TestWhatIsNoProtobufMessageIsRefused(t *testing.T) {
	s := newServer(t, dedup.NewMemory())
	defer s.Close()
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs(idempotency.MetadataKey, "k1"))
	_, err := s.Intercept(ctx, "text", &grpc.UnaryServerInfo{FullMethod: place}, nil)
	if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "string") {
		t.Errorf("a request that is a string: %v", err)
	}
	for name, resp := range map[string]any{"nil": nil, "a string": "text", "not UTF-8": &errdetails.ResourceInfo{Owner: "\xff"}} {
		_, got, err := intercept(t.Context(), s, name, func(context.Context, any) (any, error) { return resp, nil })
		if status.Code(err) != codes.Internal || got != nil {
			t.Errorf("a response that is %s: %v, %v", name, got, err)
		}
	}
}

func TestAfterTheAnswerTheStreamIsClosedToTheHandler(t *testing.T) {
	s := newServer(t, dedup.NewMemory())
	defer s.Close()
	var late context.Context
	stream, _, err := intercept(t.Context(), s, "k1", func(ctx context.Context, _ any) (any, error) {
		late = ctx
		return &errdetails.ResourceInfo{}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	md := metadata.Pairs("late", "1")
	if grpc.SetHeader(late, md) == nil || grpc.SendHeader(late, md) == nil || grpc.SetTrailer(late, md) == nil {
		t.Error("metadata was taken after the answer")
	}
	if len(stream.header)+len(stream.trailer) != 0 {
		t.Errorf("header %v, trailer %v", stream.header, stream.trailer)
	}
}

func TestAnOutageIsLoggedWithoutKeysAndNotForEveryCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		s := newServer(t, stubStore{promise: dedup.OneAtATime, err: errors.New("connection refused")},
			idempotency.WithLogger(slog.New(slog.NewTextHandler(&b, nil))),
			idempotency.WithScope(func(context.Context) (string, error) { return "secret-scope", nil }))
		defer s.Close()
		for range 10 {
			_, _, _ = intercept(t.Context(), s, "secret-key", nil)
		}
		time.Sleep(time.Second)
		_, _, _ = intercept(t.Context(), s, "secret-key", nil)
		got := b.String()
		if strings.Count(got, "connection refused") != 2 || !strings.Contains(got, "not_logged=9") || !strings.Contains(got, place) {
			t.Errorf("logged:\n%s", got)
		}
		if strings.Contains(got, "secret") {
			t.Errorf("the log holds a key or a scope:\n%s", got)
		}
	})
}
