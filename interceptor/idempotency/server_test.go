package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/interceptor/idempotency"
	"github.com/retrysafe/retrysafe/interceptor/internal/wire"
)

// counting is a handler that counts its runs and answers with the count.
func counting(runs *atomic.Int64) handler {
	return func(_ context.Context, _ string, req *errdetails.RequestInfo) (*errdetails.ResourceInfo, error) {
		return &errdetails.ResourceInfo{ResourceName: fmt.Sprint("run ", runs.Add(1)), Description: req.ServingData}, nil
	}
}

func wantReason(t *testing.T, err error, code codes.Code, reason wire.Reason) {
	t.Helper()
	got, _ := wire.ReasonOf(err)
	if status.Code(err) != code || got != reason {
		t.Errorf("error %v with reason %q, want %v with %q", err, got, code, reason)
	}
}

func TestARepeatIsAnsweredWithTheOriginal(t *testing.T) {
	var runs atomic.Int64
	s := serve(t, dedup.NewMemory(), counting(&runs))
	first := s.call(withKey(t, "k1"), place, request("a"))
	if first.err != nil {
		t.Fatal(first.err)
	}
	if header, trailer := first.replayed(); header || trailer {
		t.Error("the first answer is marked as a replay")
	}
	for range 3 {
		again := s.call(withKey(t, "k1"), place, request("a"))
		if again.err != nil || !proto.Equal(again.resp, first.resp) {
			t.Fatalf("the repeat got %v, %v, want %v", again.resp, again.err, first.resp)
		}
		if header, trailer := again.replayed(); !header || trailer {
			t.Errorf("a replay's header is marked: %t, its trailer: %t", header, trailer)
		}
	}
	if runs.Load() != 1 {
		t.Errorf("the handler ran %d times", runs.Load())
	}
	if other := s.call(withKey(t, "k2"), place, request("a")); other.err != nil || runs.Load() != 2 {
		t.Errorf("another key: %v, %d runs", other.err, runs.Load())
	}
	if other := s.call(withKey(t, "k1"), offer, request("b")); other.err != nil || runs.Load() != 3 {
		t.Errorf("the key on another method: %v, %d runs", other.err, runs.Load())
	}
}

func TestAnEmptyResponseIsAnOutcome(t *testing.T) {
	var runs atomic.Int64
	s := serve(t, dedup.NewMemory(), func(context.Context, string, *errdetails.RequestInfo) (*errdetails.ResourceInfo, error) {
		runs.Add(1)
		return &errdetails.ResourceInfo{}, nil
	})
	for range 2 {
		if r := s.call(withKey(t, "k1"), place, request("")); r.err != nil || !proto.Equal(r.resp, &errdetails.ResourceInfo{}) {
			t.Fatalf("%v, %v", r.resp, r.err)
		}
	}
	if runs.Load() != 1 {
		t.Errorf("the handler ran %d times", runs.Load())
	}
}

func TestABusinessErrorIsReplayedWithItsDetails(t *testing.T) {
	st, err := status.New(codes.FailedPrecondition, "not enough").WithDetails(
		&errdetails.ErrorInfo{Reason: "INSUFFICIENT_FUNDS", Metadata: map[string]string{"shortfall": "5"}}, &errdetails.RetryInfo{})
	if err != nil {
		t.Fatal(err)
	}
	for name, handlerErr := range map[string]error{
		"a status":          st.Err(),
		"a wrapped status":  fmt.Errorf("debit: %w", st.Err()),
		"without details":   status.Error(codes.NotFound, ""),
		"in several lines":  status.Error(codes.OutOfRange, "one\ntwo\té"),
		"an invalid string": status.Error(codes.InvalidArgument, "\xff"),
	} {
		t.Run(name, func(t *testing.T) {
			var runs atomic.Int64
			s := serve(t, dedup.NewMemory(), func(context.Context, string, *errdetails.RequestInfo) (*errdetails.ResourceInfo, error) {
				runs.Add(1)
				return nil, handlerErr
			})
			first, again := s.call(withKey(t, "k1"), place, request("a")), s.call(withKey(t, "k1"), place, request("a"))
			if !proto.Equal(status.Convert(again.err).Proto(), status.Convert(first.err).Proto()) || first.err == nil {
				t.Errorf("replayed %v, first %v", again.err, first.err)
			}
			if header, trailer := again.replayed(); !header || !trailer {
				t.Errorf("the replay's header is marked: %t, its trailer: %t", header, trailer)
			}
			if header, trailer := first.replayed(); header || trailer {
				t.Error("the first answer is marked as a replay")
			}
			if runs.Load() != 1 {
				t.Errorf("the handler ran %d times", runs.Load())
			}
		})
	}
}

func TestAnAnswerWithoutEffectLetsTheNextAttemptRun(t *testing.T) {
	for name, answer := range map[string]func(context.Context) error{
		"UNAVAILABLE": func(context.Context) error { return status.Error(codes.Unavailable, "later") },
		"ErrNoEffect": func(context.Context) error { return fmt.Errorf("nothing done: %w", dedup.ErrNoEffect) },
		"settled so": func(ctx context.Context) error {
			ex, _ := dedup.ExecutionFromContext(ctx)
			ex.Settle(dedup.NoEffect)
			return status.Error(codes.Internal, "before anything")
		},
	} {
		t.Run(name, func(t *testing.T) {
			var runs atomic.Int64
			s := serve(t, dedup.NewMemory(), func(ctx context.Context, _ string, _ *errdetails.RequestInfo) (*errdetails.ResourceInfo, error) {
				if runs.Add(1) == 1 {
					return nil, answer(ctx)
				}
				return &errdetails.ResourceInfo{}, nil
			})
			if first := s.call(withKey(t, "k1"), place, request("a")); first.err == nil {
				t.Fatal("the first attempt succeeded")
			}
			if second := s.call(withKey(t, "k1"), place, request("a")); second.err != nil || runs.Load() != 2 {
				t.Errorf("the second attempt: %v, %d runs", second.err, runs.Load())
			}
		})
	}
}

// TestAnErrorWithoutEffectKeepsItsStatus, which says what its code would not.
func TestAnErrorWithoutEffectKeepsItsStatus(t *testing.T) {
	s := serve(t, dedup.NewMemory(), func(context.Context, string, *errdetails.RequestInfo) (*errdetails.ResourceInfo, error) {
		return nil, fmt.Errorf("%w: %w", status.Error(codes.NotFound, "not yet"), dedup.ErrNoEffect)
	})
	for range 2 {
		r := s.call(withKey(t, "k1"), place, request("a"))
		if header, trailer := r.replayed(); status.Code(r.err) != codes.NotFound || !strings.Contains(r.err.Error(), "not yet") || header || trailer {
			t.Errorf("%v, marked as a replay: %t, %t", r.err, header, trailer)
		}
	}
}

func TestAHandlerCanMakeAnyAnswerFinal(t *testing.T) {
	var runs atomic.Int64
	s := serve(t, dedup.NewMemory(), func(ctx context.Context, _ string, _ *errdetails.RequestInfo) (*errdetails.ResourceInfo, error) {
		runs.Add(1)
		ex, ok := dedup.ExecutionFromContext(ctx)
		if !ok || ex.Attempt() != 1 {
			t.Errorf("the execution is %v, %t", ex, ok)
			return nil, nil
		}
		ex.Settle(dedup.Terminal)
		return nil, status.Error(codes.ResourceExhausted, "for good")
	})
	for range 2 {
		if r := s.call(withKey(t, "k1"), place, request("a")); status.Code(r.err) != codes.ResourceExhausted {
			t.Errorf("got %v", r.err)
		}
	}
	if runs.Load() != 1 {
		t.Errorf("the handler ran %d times", runs.Load())
	}
}

func TestAnotherRequestUnderTheKeyIsRefused(t *testing.T) {
	var runs atomic.Int64
	s := serve(t, dedup.NewMemory(), counting(&runs))
	if r := s.call(withKey(t, "k1"), place, request("a")); r.err != nil {
		t.Fatal(r.err)
	}
	r := s.call(withKey(t, "k1"), place, request("b"))
	wantReason(t, r.err, codes.FailedPrecondition, wire.ReasonKeyReused)
	if runs.Load() != 1 {
		t.Errorf("the handler ran %d times", runs.Load())
	}
}

func TestWhichCallsAreDeduplicated(t *testing.T) {
	const repeats = 2
	for _, tt := range []struct {
		name     string
		method   string
		key      bool
		opts     []idempotency.ServerOption
		wantRuns int64
		reason   wire.Reason
	}{
		{name: "required, with a key", method: place, key: true, wantRuns: 1},
		{name: "required, without", method: place, reason: wire.ReasonKeyRequired},
		{name: "optional, with a key", method: offer, key: true, wantRuns: 1},
		{name: "optional, without", method: offer, wantRuns: repeats},
		{name: "nothing said, with a key", method: look, key: true, wantRuns: repeats},
		{name: "nothing said, without", method: look, wantRuns: repeats},
		{name: "code says optional of a method", method: look, key: true, wantRuns: 1,
			opts: []idempotency.ServerOption{idempotency.WithMethodKey(look, idempotency.KeyOptional)}},
		{name: "code says required of a service", method: look, reason: wire.ReasonKeyRequired,
			opts: []idempotency.ServerOption{idempotency.WithMethodKey("/idempotency.test.v1.Orders/*", idempotency.KeyRequired)}},
		{name: "code says none, against the .proto", method: place, key: true, wantRuns: repeats,
			opts: []idempotency.ServerOption{idempotency.WithMethodKey("*", idempotency.KeyNone)}},
		{name: "the most specific pattern wins", method: place, wantRuns: repeats,
			opts: []idempotency.ServerOption{idempotency.WithMethodKey("*", idempotency.KeyRequired), idempotency.WithMethodKey(place, idempotency.KeyOptional)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var runs atomic.Int64
			s := serve(t, dedup.NewMemory(), counting(&runs), tt.opts...)
			ctx := t.Context()
			if tt.key {
				ctx = withKey(t, "k1")
			}
			for range repeats {
				r := s.call(ctx, tt.method, request("a"))
				if tt.reason != "" {
					wantReason(t, r.err, codes.FailedPrecondition, tt.reason)
				} else if r.err != nil {
					t.Error(r.err)
				}
			}
			if runs.Load() != tt.wantRuns {
				t.Errorf("the handler ran %d times, want %d", runs.Load(), tt.wantRuns)
			}
		})
	}
}

func TestABadKeyIsRefusedBeforeAllElse(t *testing.T) {
	var runs atomic.Int64
	scope := idempotency.WithScope(func(context.Context) (string, error) {
		t.Error("the scope was asked for")
		return "", nil
	})
	s := serve(t, dedup.NewMemory(), counting(&runs), scope)
	for name, ctx := range map[string]context.Context{
		"empty":         withKey(t, ""),
		"a byte more":   withKey(t, strings.Repeat("k", 256)),
		"with a space":  withKey(t, "order 42"),
		"twice":         metadata.AppendToOutgoingContext(withKey(t, "k1"), idempotency.MetadataKey, "k2"),
		"twice the one": metadata.AppendToOutgoingContext(withKey(t, "k1"), idempotency.MetadataKey, "k1"),
	} {
		t.Run(name, func(t *testing.T) {
			r := s.call(ctx, place, request("a"))
			wantReason(t, r.err, codes.InvalidArgument, wire.ReasonKeyInvalid)
			if strings.Contains(r.err.Error(), "order 42") {
				t.Errorf("%v shows the key", r.err)
			}
		})
	}
	if runs.Load() != 0 {
		t.Errorf("the handler ran %d times", runs.Load())
	}
}

func TestTheKeyMayComeInTheRequest(t *testing.T) {
	var runs atomic.Int64
	s := serve(t, dedup.NewMemory(), counting(&runs))
	in := func(k string) *errdetails.RequestInfo { return &errdetails.RequestInfo{RequestId: k} }
	if r := s.call(t.Context(), named, in("k1")); r.err != nil {
		t.Fatal(r.err)
	}
	for name, ctx := range map[string]context.Context{"in the field": t.Context(), "in both": withKey(t, "k1")} {
		if r := s.call(ctx, named, in("k1")); r.err != nil || r.resp.ResourceName != "run 1" {
			t.Errorf("the key %s: %v, %v", name, r.resp, r.err)
		}
	}
	wantReason(t, s.call(withKey(t, "k2"), named, in("k1")).err, codes.InvalidArgument, wire.ReasonKeyInvalid)
	wantReason(t, s.call(t.Context(), named, in("k 1")).err, codes.InvalidArgument, wire.ReasonKeyInvalid)
	wantReason(t, s.call(t.Context(), named, in("")).err, codes.FailedPrecondition, wire.ReasonKeyRequired)
	if r := s.call(withKey(t, "k3"), named, in("")); r.err != nil || r.resp.ResourceName != "run 2" {
		t.Errorf("the key in metadata alone: %v, %v", r.resp, r.err)
	}
}

type tenantKey struct{}

func TestScopesNeverMeet(t *testing.T) {
	var runs atomic.Int64
	once, err := idempotency.UnaryServerInterceptor(dedup.NewMemory(), idempotency.WithScope(func(ctx context.Context) (string, error) {
		return ctx.Value(tenantKey{}).(string), nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	auth := func(ctx context.Context, req any, info *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
		return h(context.WithValue(ctx, tenantKey{}, metadata.ValueFromIncomingContext(ctx, "token")[0]), req)
	}
	s := serveBehind(t, counting(&runs), []grpc.UnaryServerInterceptor{auth, once})
	for i, tenant := range []string{"alice", "bob", ""} {
		for range 2 {
			r := s.call(metadata.AppendToOutgoingContext(withKey(t, "k1"), "token", tenant), place, request("a"))
			if want := fmt.Sprint("run ", i+1); r.err != nil || r.resp.ResourceName != want {
				t.Errorf("%q got %v, %v, want %s", tenant, r.resp, r.err, want)
			}
		}
	}
}

func TestAScopeThatCannotBeToldFailsTheCall(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want codes.Code
	}{
		"a status":     {status.Error(codes.Unauthenticated, "who are you"), codes.Unauthenticated},
		"no status":    {errors.New("secret of the server"), codes.Internal},
		"an OK status": {okError{}, codes.Internal},
	} {
		t.Run(name, func(t *testing.T) {
			var runs atomic.Int64
			s := serve(t, dedup.NewMemory(), counting(&runs), idempotency.WithScope(func(context.Context) (string, error) { return "", tt.err }))
			r := s.call(withKey(t, "k1"), place, request("a"))
			if status.Code(r.err) != tt.want || strings.Contains(r.err.Error(), "secret") || runs.Load() != 0 {
				t.Errorf("got %v after %d runs, want %v", r.err, runs.Load(), tt.want)
			}
		})
	}
}

// okError is an error whose status claims that nothing is wrong.
type okError struct{}

func (okError) Error() string              { return "not OK" }
func (okError) GRPCStatus() *status.Status { return status.New(codes.OK, "") }

func TestAllowedHeadersAndTrailersAreReplayed(t *testing.T) {
	s := serve(t, dedup.NewMemory(), func(ctx context.Context, _ string, req *errdetails.RequestInfo) (*errdetails.ResourceInfo, error) {
		err := errors.Join(
			grpc.SetHeader(ctx, metadata.Pairs("etag", "v1", "ETag", "v2", "sum-bin", "\x00\xff", "set-cookie", "session")),
			grpc.SendHeader(ctx, metadata.Pairs("etag", "", "x-secret", "s")),
			grpc.SetTrailer(ctx, metadata.Pairs("cost", "1", "x-secret", "s")),
			grpc.SetTrailer(ctx, metadata.Pairs("cost", "2")),
		)
		if err != nil {
			t.Error(err)
		}
		if grpc.SetHeader(ctx, metadata.Pairs("late", "1")) == nil || grpc.SendHeader(ctx, nil) == nil {
			t.Error("a header was taken after SendHeader")
		}
		if m, ok := grpc.Method(ctx); !ok || m != place {
			t.Errorf("grpc.Method = %q, %t", m, ok)
		}
		if req.ServingData == "fail" {
			return nil, status.Error(codes.NotFound, "no")
		}
		return &errdetails.ResourceInfo{}, nil
	}, idempotency.WithReplayHeaders("ETag", "sum-bin", "cost"))
	for _, data := range []string{"answer", "fail"} {
		first, again := s.call(withKey(t, data), place, request(data)), s.call(withKey(t, data), place, request(data))
		for name, r := range map[string]reply{"first": first, "again": again} {
			if !slices.Equal(r.header["etag"], []string{"v1", "v2", ""}) {
				t.Errorf("%s, %s: etag %q", data, name, r.header["etag"])
			}
			if !slices.Equal(r.header["sum-bin"], []string{"\x00\xff"}) || !slices.Equal(r.trailer["cost"], []string{"1", "2"}) {
				t.Errorf("%s, %s: header %v, trailer %v", data, name, r.header, r.trailer)
			}
		}
		if first.header["set-cookie"] == nil || first.header["x-secret"] == nil || first.trailer["x-secret"] == nil {
			t.Errorf("%s: the first answer lacks what the handler set: %v, %v", data, first.header, first.trailer)
		}
		if again.header["set-cookie"] != nil || again.header["x-secret"] != nil || again.trailer["x-secret"] != nil {
			t.Errorf("%s: the replay has what is not allowed: %v, %v", data, again.header, again.trailer)
		}
		if header, trailer := again.replayed(); !header || trailer != (data == "fail") {
			t.Errorf("%s: the replay's header is marked: %t, its trailer: %t", data, header, trailer)
		}
	}
}

// TestAHandlerCannotMarkItsAnswerAsAReplay: one that passes on what another
// server sent would, without meaning to.
func TestAHandlerCannotMarkItsAnswerAsAReplay(t *testing.T) {
	s := serve(t, dedup.NewMemory(), func(ctx context.Context, _ string, _ *errdetails.RequestInfo) (*errdetails.ResourceInfo, error) {
		mark := metadata.Pairs("Idempotency-Replayed", "true", "etag", "v1")
		if err := errors.Join(grpc.SetHeader(ctx, mark), grpc.SetTrailer(ctx, mark)); err != nil {
			t.Error(err)
		}
		return &errdetails.ResourceInfo{}, nil
	})
	first, again := s.call(withKey(t, "k1"), place, request("a")), s.call(withKey(t, "k1"), place, request("a"))
	if header, trailer := first.replayed(); header || trailer || first.header["etag"] == nil || first.trailer["etag"] == nil {
		t.Errorf("the first answer: header %v, trailer %v", first.header, first.trailer)
	}
	if header, trailer := again.replayed(); !header || trailer {
		t.Errorf("the replay: header %v, trailer %v", again.header, again.trailer)
	}
}

func TestHeadersLeaveWithTheAnswerOnly(t *testing.T) {
	release := make(chan struct{})
	sent := make(chan struct{})
	s := serve(t, dedup.NewMemory(), func(ctx context.Context, _ string, _ *errdetails.RequestInfo) (*errdetails.ResourceInfo, error) {
		if err := grpc.SendHeader(ctx, metadata.Pairs("etag", "v1")); err != nil {
			t.Error(err)
		}
		close(sent)
		<-release
		return &errdetails.ResourceInfo{}, nil
	})
	stream, err := s.conn.NewStream(withKey(t, "k1"), &grpc.StreamDesc{}, place)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(stream.SendMsg(request("a")), stream.CloseSend()); err != nil {
		t.Fatal(err)
	}
	<-sent
	got := make(chan metadata.MD)
	go func() {
		md, _ := stream.Header()
		got <- md
	}()
	select {
	case <-got:
		t.Error("the header came before the outcome was settled")
	case <-time.After(20 * time.Millisecond):
	}
	close(release)
	if md := <-got; !slices.Equal(md["etag"], []string{"v1"}) {
		t.Errorf("header %v", md)
	}
	if err := stream.RecvMsg(new(errdetails.ResourceInfo)); err != nil {
		t.Error(err)
	}
}

func TestTheHandlerFindsItsOperation(t *testing.T) {
	s := serve(t, dedup.NewMemory(), func(ctx context.Context, _ string, _ *errdetails.RequestInfo) (*errdetails.ResourceInfo, error) {
		if k, ok := idempotency.KeyFromContext(ctx); !ok || k != "k1" {
			t.Errorf("KeyFromContext = %q, %t", k, ok)
		}
		if _, ok := metadata.FromOutgoingContext(ctx); ok {
			t.Error("calls of the handler would carry metadata")
		}
		if ex, ok := dedup.ExecutionFromContext(ctx); !ok || ex.Fence() == 0 {
			t.Error("no execution in the context")
		}
		left, ok := ctx.Deadline()
		if !ok || time.Until(left) > 7*time.Second || time.Until(left) < time.Second {
			t.Errorf("the handler's deadline is in %v, want max_execution's 7 s", time.Until(left))
		}
		return &errdetails.ResourceInfo{}, nil
	})
	ctx, cancel := context.WithTimeout(withKey(t, "k1"), time.Minute)
	defer cancel()
	if r := s.call(ctx, place, request("a")); r.err != nil {
		t.Error(r.err)
	}
}

func TestAHandlerOutlivesItsCaller(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	s := serve(t, dedup.NewMemory(), func(ctx context.Context, _ string, _ *errdetails.RequestInfo) (*errdetails.ResourceInfo, error) {
		close(started) // a second run would panic
		<-release
		if ctx.Err() != nil {
			t.Errorf("the handler was cancelled: %v", ctx.Err())
		}
		return &errdetails.ResourceInfo{ResourceName: "done"}, nil
	})
	ctx, cancel := context.WithCancel(withKey(t, "k1"))
	first := make(chan reply)
	go func() { first <- s.call(ctx, place, request("a")) }()
	<-started
	cancel()
	if r := <-first; status.Code(r.err) != codes.Canceled {
		t.Errorf("the caller got %v", r.err)
	}
	second := make(chan reply)
	go func() { second <- s.call(withKey(t, "k1"), place, request("a")) }()
	close(release)
	if r := <-second; r.err != nil || r.resp.ResourceName != "done" {
		t.Errorf("the repeat got %v, %v", r.resp, r.err)
	}
}

func TestDuplicatesAtOnceRunTheHandlerOnce(t *testing.T) {
	var runs atomic.Int64
	release := make(chan struct{})
	s := serve(t, dedup.NewMemory(), func(context.Context, string, *errdetails.RequestInfo) (*errdetails.ResourceInfo, error) {
		n := runs.Add(1)
		<-release
		return &errdetails.ResourceInfo{ResourceName: fmt.Sprint(n)}, nil
	})
	const callers = 32
	var first, replays atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			r := s.call(withKey(t, "k1"), place, request("a"))
			if r.err != nil || r.resp.ResourceName != "1" {
				t.Errorf("got %v, %v", r.resp, r.err)
			}
			if header, _ := r.replayed(); header {
				replays.Add(1)
			} else {
				first.Add(1)
			}
		})
	}
	for runs.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	close(release)
	wg.Wait()
	if runs.Load() != 1 || first.Load() != 1 || replays.Load() != callers-1 {
		t.Errorf("%d runs, %d first answers, %d replays", runs.Load(), first.Load(), replays.Load())
	}
}

func TestAPanicReachesTheRecoveryInterceptor(t *testing.T) {
	once, err := idempotency.UnaryServerInterceptor(dedup.NewMemory(), idempotency.WithWait(time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	recovery := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (resp any, err error) {
		defer func() {
			if p := recover(); p != nil {
				err = status.Errorf(codes.Internal, "recovered: %v", p)
			}
		}()
		return h(ctx, req)
	}
	s := serveBehind(t, func(ctx context.Context, _ string, _ *errdetails.RequestInfo) (*errdetails.ResourceInfo, error) {
		if err := grpc.SetHeader(ctx, metadata.Pairs("etag", "v1")); err != nil {
			t.Error(err)
		}
		panic("boom")
	}, []grpc.UnaryServerInterceptor{recovery, once})
	r := s.call(withKey(t, "k1"), place, request("a"))
	if status.Code(r.err) != codes.Internal || !strings.Contains(r.err.Error(), "recovered: boom") || r.header["etag"] != nil {
		t.Errorf("got %v, header %v", r.err, r.header)
	}
	// It is not known what it did, so that the claim is kept to its lease's end.
	wantReason(t, s.call(withKey(t, "k1"), place, request("a")).err, codes.Unavailable, wire.ReasonInProgress)
}
