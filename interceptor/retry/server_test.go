package retry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/retrysafe/retrysafe/interceptor/retry"
)

// unaryFunc is a test service of one method.
type unaryFunc func(context.Context, *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error)

type unaryService struct {
	grpc_testing.UnimplementedTestServiceServer
	unary unaryFunc
}

func (s unaryService) UnaryCall(ctx context.Context, req *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
	return s.unary(ctx, req)
}

// startHop serves f behind interceptors and returns its address.
func startHop(t *testing.T, f unaryFunc, interceptors ...grpc.UnaryServerInterceptor) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer(grpc.ChainUnaryInterceptor(interceptors...))
	grpc_testing.RegisterTestServiceServer(srv, unaryService{unary: f})
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

func dialHop(t *testing.T, addr string, opts ...grpc.DialOption) grpc_testing.TestServiceClient {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+addr, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return grpc_testing.NewTestServiceClient(conn)
}

func serverInterceptor(t *testing.T, opts ...retry.Option) grpc.UnaryServerInterceptor {
	t.Helper()
	i, err := retry.UnaryServerInterceptor(opts...)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// threeAttempts retries every method three times without a wait.
func threeAttempts(t *testing.T) []grpc.DialOption {
	t.Helper()
	opts, err := retry.DialOptions(
		retry.WithMethodSafety("*", retry.SafetySafe),
		retry.WithPolicy(retry.Policy{MaxAttempts: 3, Backoff: retry.Backoff{Immediate: true}}),
		retry.WithoutBudget())
	if err != nil {
		t.Fatal(err)
	}
	return opts
}

// threeHops calls a -> b -> c, where c always fails, and counts c's calls.
// report makes the error that a and b answer of what the hop below answered.
func threeHops(t *testing.T, owned bool, report func(error) error) (calls int64, err error) {
	t.Helper()
	var atC atomic.Int64
	var chain []grpc.UnaryServerInterceptor
	if owned {
		chain = append(chain, serverInterceptor(t))
	}
	forward := func(addr string) unaryFunc {
		next := dialHop(t, addr, threeAttempts(t)...)
		return func(ctx context.Context, req *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
			resp, err := next.UnaryCall(ctx, req)
			if err != nil {
				return nil, report(err)
			}
			return resp, nil
		}
	}
	c := startHop(t, func(context.Context, *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
		atC.Add(1)
		return nil, status.Error(codes.Unavailable, "down")
	}, chain...)
	b := startHop(t, forward(c), chain...)
	a := startHop(t, forward(b), chain...)

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err = dialHop(t, a, threeAttempts(t)...).UnaryCall(ctx, &grpc_testing.SimpleRequest{})
	return atC.Load(), err
}

func TestThreeHopsOfThreeAttempts(t *testing.T) {
	for _, tt := range []struct {
		name   string
		owned  bool
		report func(error) error
		want   int64
	}{
		{"cost 3 where handlers return the error", true, func(err error) error { return err }, 3},
		{"cost 3 where they wrap it", true, func(err error) error { return fmt.Errorf("ask the next: %w", err) }, 3},
		{"cost 3 where they make another of the same code", true, func(error) error { return status.Error(codes.Unavailable, "try later") }, 3},
		{"cost 27 without ownership", false, func(err error) error { return err }, 27},
	} {
		t.Run(tt.name, func(t *testing.T) {
			calls, err := threeHops(t, tt.owned, tt.report)
			if calls != tt.want {
				t.Errorf("the failing hop was called %d times, want %d", calls, tt.want)
			}
			if status.Code(err) != codes.Unavailable {
				t.Errorf("the caller got %v", err)
			}
		})
	}
}

func TestAHandlersOwnFailureMayBeRetried(t *testing.T) {
	var calls atomic.Int64
	below := startHop(t, func(context.Context, *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
		return nil, status.Error(codes.Unavailable, "down")
	})
	next := dialHop(t, below, threeAttempts(t)...)
	addr := startHop(t, func(ctx context.Context, req *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
		calls.Add(1)
		_, err := next.UnaryCall(ctx, req) // an optional dependency
		if status.Code(err) != codes.Unavailable {
			t.Errorf("the optional dependency answered %v", err)
		}
		return nil, status.Error(codes.DeadlineExceeded, "too slow myself")
	}, serverInterceptor(t))
	_, err := dialHop(t, addr, threeAttempts(t)...).UnaryCall(t.Context(), &grpc_testing.SimpleRequest{})
	if calls.Load() != 3 || status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("%d calls, %v, want 3 that end in DEADLINE_EXCEEDED", calls.Load(), err)
	}
}

// A client that knows nothing of this package keeps to gRFC A6: grpc-go's own
// retries stop at a pushback of -1.
func TestForeignClientsStopToo(t *testing.T) {
	const config = `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 3, "initialBackoff": "0.001s",
		"maxBackoff": "0.001s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`
	for _, tt := range []struct {
		name  string
		chain []grpc.UnaryServerInterceptor
		want  int64
	}{
		{"with ownership", []grpc.UnaryServerInterceptor{serverInterceptor(t)}, 1},
		{"without", nil, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var calls atomic.Int64
			below := startHop(t, func(context.Context, *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
				return nil, status.Error(codes.Unavailable, "down")
			})
			next := dialHop(t, below, threeAttempts(t)...)
			addr := startHop(t, func(ctx context.Context, req *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
				calls.Add(1)
				return next.UnaryCall(ctx, req)
			}, tt.chain...)
			_, err := dialHop(t, addr, grpc.WithDefaultServiceConfig(config)).UnaryCall(t.Context(), &grpc_testing.SimpleRequest{})
			if calls.Load() != tt.want || status.Code(err) != codes.Unavailable {
				t.Errorf("%d calls, %v, want %d", calls.Load(), err, tt.want)
			}
		})
	}
}

func TestTheHandlerSeesTheOwner(t *testing.T) {
	for _, tt := range []struct {
		name string
		md   []string
		want string
	}{
		{"none is named", nil, ""},
		{"one is", []string{"retry-owner", "checkout"}, "checkout"},
		{"a malformed one is none", []string{"retry-owner", "check out"}, ""},
		{"two are none", []string{"retry-owner", "a", "retry-owner", "b"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var owner string
			var named bool
			addr := startHop(t, func(ctx context.Context, _ *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
				owner, named = retry.OwnerFromContext(ctx)
				return &grpc_testing.SimpleResponse{}, nil
			}, serverInterceptor(t))
			ctx := metadata.AppendToOutgoingContext(t.Context(), tt.md...)
			if _, err := dialHop(t, addr).UnaryCall(ctx, &grpc_testing.SimpleRequest{}); err != nil {
				t.Fatal(err)
			}
			if owner != tt.want || named != (tt.want != "") {
				t.Errorf("OwnerFromContext = %q, %t, want %q", owner, named, tt.want)
			}
		})
	}
	if owner, ok := retry.OwnerFromContext(context.Background()); ok {
		t.Errorf("OwnerFromContext of a bare context = %q", owner)
	}
}

var foreignLayers = []struct {
	name    string
	md      []string
	foreign bool
}{
	{"nothing", nil, false},
	{"our own second attempt", []string{"retry-owner", "retrysafe", "grpc-previous-rpc-attempts", "1"}, false},
	{"two counts of attempts", []string{"grpc-previous-rpc-attempts", "1", "grpc-previous-rpc-attempts", "2"}, true},
	{"two owners", []string{"retry-owner", "a", "retry-owner", "b"}, true},
	{"a first attempt through Envoy", []string{"x-envoy-attempt-count", "1"}, false},
	{"Envoy's second", []string{"x-envoy-attempt-count", "2"}, true},
	{"what is no count", []string{"x-envoy-attempt-count", "many"}, false},
	{"go-grpc-middleware's first retry", []string{"x-retry-attempt", "1"}, true},
	{"as its version 1 spells it", []string{"x-retry-attempty", "1"}, true},
	{"its first attempt", []string{"x-retry-attempt", "0"}, false},
}

func TestAForeignLayerIsRejected(t *testing.T) {
	for _, tt := range foreignLayers {
		t.Run(tt.name, func(t *testing.T) {
			handled := false
			addr := startHop(t, func(context.Context, *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
				handled = true
				return &grpc_testing.SimpleResponse{}, nil
			}, serverInterceptor(t, retry.WithRejectForeign()))
			ctx := metadata.AppendToOutgoingContext(t.Context(), tt.md...)
			_, err := dialHop(t, addr).UnaryCall(ctx, &grpc_testing.SimpleRequest{})
			if handled == tt.foreign {
				t.Errorf("handled = %t", handled)
			}
			if !tt.foreign {
				if err != nil {
					t.Error(err)
				}
				return
			}
			st := status.Convert(err)
			if st.Code() != codes.FailedPrecondition || len(st.Details()) != 1 {
				t.Fatalf("the call got %v", err)
			}
			if info, ok := st.Details()[0].(*errdetails.ErrorInfo); !ok || info.GetReason() != "MULTIPLE_RETRY_OWNERS" {
				t.Errorf("details = %v", st.Details())
			}
		})
	}
}

func TestAForeignLayerIsWarnedOfOncePerPeer(t *testing.T) {
	for _, tt := range foreignLayers {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer // written in the handler's goroutine, one call at a time
			reader := metric.NewManualReader()
			addr := startHop(t, func(context.Context, *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
				return &grpc_testing.SimpleResponse{}, nil
			}, serverInterceptor(t,
				retry.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
				retry.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))))
			client := dialHop(t, addr)
			ctx := metadata.AppendToOutgoingContext(t.Context(), tt.md...)
			for range 3 {
				if _, err := client.UnaryCall(ctx, &grpc_testing.SimpleRequest{}); err != nil {
					t.Fatal(err)
				}
			}
			warnings, counted := 0, int64(0)
			if tt.foreign {
				warnings, counted = 1, 3
			}
			if n := strings.Count(log.String(), "level=WARN"); n != warnings {
				t.Errorf("%d warnings, want %d: %s", n, warnings, log.String())
			}
			if n := foreignRetries(t, reader); n != counted {
				t.Errorf("counted %d, want %d", n, counted)
			}
		})
	}
}

func foreignRetries(t *testing.T, reader metric.Reader) (n int64) {
	t.Helper()
	var rm metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &rm); err != nil {
		t.Fatal(err)
	}
	for _, scope := range rm.ScopeMetrics {
		for _, m := range scope.Metrics {
			if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == "retrysafe.server.foreign_retries" {
				for _, p := range sum.DataPoints {
					n += p.Value
				}
			}
		}
	}
	return n
}

func TestOptionsOfTheOtherSideAreRefused(t *testing.T) {
	_, err := retry.UnaryServerInterceptor(
		retry.WithPolicy(retry.Policy{}), retry.WithMethodPolicy("/a.B/C", retry.Policy{}),
		retry.WithMethodSafety("*", retry.SafetySafe), retry.WithServiceConfig("{}"), retry.WithBudget(retry.Budget{}),
		retry.WithOwner("checkout"), retry.WithSharedStore(),
		retry.WithOnRetry(func(context.Context, retry.Retry) {}),
		retry.WithOnExhausted(func(context.Context, *retry.ExhaustedError) {}))
	if err == nil {
		t.Fatal("a server takes client options")
	}
	for _, option := range []string{"WithPolicy", "WithMethodPolicy", "WithMethodSafety", "WithServiceConfig", "WithBudget",
		"WithOwner", "WithSharedStore", "WithOnRetry", "WithOnExhausted"} {
		if !strings.Contains(err.Error(), option+": ") {
			t.Errorf("%v does not name %s", err, option)
		}
	}
	if _, err := retry.UnaryClientInterceptor(retry.WithRejectForeign()); err == nil || !strings.Contains(err.Error(), "WithRejectForeign") {
		t.Errorf("a client with WithRejectForeign: %v", err)
	}
	if _, err := retry.UnaryServerInterceptor(retry.WithLogger(nil), retry.WithMeterProvider(nil)); err == nil ||
		!strings.Contains(err.Error(), "WithLogger") || !strings.Contains(err.Error(), "WithMeterProvider") {
		t.Errorf("nil options: %v", err)
	}
	if _, err := retry.UnaryServerInterceptor(nil, retry.WithMeterProvider((*metric.MeterProvider)(nil))); err == nil ||
		!strings.Contains(err.Error(), "option 0 is nil") || !strings.Contains(err.Error(), "WithMeterProvider") {
		t.Errorf("a nil option and a nil provider: %v", err)
	}
}

// A call that ended well, whatever became of calls on the way, asks nothing of
// its client.
func TestAHandlerThatSucceedsSendsNoPushback(t *testing.T) {
	below := startHop(t, func(context.Context, *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
		return nil, status.Error(codes.Unavailable, "down")
	})
	next := dialHop(t, below, threeAttempts(t)...)
	addr := startHop(t, func(ctx context.Context, req *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
		if _, err := next.UnaryCall(ctx, req); status.Code(err) != codes.Unavailable {
			t.Errorf("the optional dependency answered %v", err)
		}
		return &grpc_testing.SimpleResponse{}, nil
	}, serverInterceptor(t))
	var trailer metadata.MD
	if _, err := dialHop(t, addr).UnaryCall(t.Context(), &grpc_testing.SimpleRequest{}, grpc.Trailer(&trailer)); err != nil {
		t.Fatal(err)
	}
	if got := trailer.Get("grpc-retry-pushback-ms"); got != nil {
		t.Errorf("pushback is %q", got)
	}
}

// Where calls under Own fail and the handler makes another error of them, the
// owner above has attempts left all the same.
func TestAnotherErrorForACallThatIsOwnedAboveIsNotExhausted(t *testing.T) {
	below := startHop(t, func(context.Context, *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
		return nil, status.Error(codes.Unavailable, "down")
	})
	next := dialHop(t, below, threeAttempts(t)...)
	addr := startHop(t, func(ctx context.Context, req *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
		_, err := next.UnaryCall(retry.Own(ctx, "client"), req)
		return nil, status.Error(status.Code(err), "try later")
	}, serverInterceptor(t))
	var trailer metadata.MD
	_, err := dialHop(t, addr).UnaryCall(t.Context(), &grpc_testing.SimpleRequest{}, grpc.Trailer(&trailer))
	if got := trailer.Get("grpc-retry-pushback-ms"); got != nil || status.Code(err) != codes.Unavailable {
		t.Errorf("pushback is %q, %v", got, err)
	}
}

// A server that many clients call through a foreign layer warns of so many, and
// counts them all.
func TestWarningsAreBounded(t *testing.T) {
	const most = 1024
	var log bytes.Buffer
	intercept := serverInterceptor(t, retry.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	for i := range most + 10 {
		ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(10, 0, byte(i>>8), byte(i)), Port: i}})
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("x-retry-attempt", "1"))
		_, err := intercept(ctx, nil, &grpc.UnaryServerInfo{FullMethod: method}, func(context.Context, any) (any, error) { return nil, nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(log.String(), "level=WARN"); n != most {
		t.Errorf("%d warnings, want %d", n, most)
	}
}

// An error of OWNED_UPSTREAM says that the owner above has attempts left.
func TestAnErrorThatIsOwnedAboveIsNotExhausted(t *testing.T) {
	var calls atomic.Int64
	below := startHop(t, func(context.Context, *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
		return nil, status.Error(codes.Unavailable, "down")
	})
	next := dialHop(t, below, threeAttempts(t)...)
	addr := startHop(t, func(ctx context.Context, req *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
		calls.Add(1)
		resp, err := next.UnaryCall(retry.Own(ctx, "client"), req)
		var ex *retry.ExhaustedError
		if !errors.As(err, &ex) || ex.Reason != retry.ReasonOwnedUpstream {
			t.Errorf("the call under Own answered %v", err)
		}
		return resp, err
	}, serverInterceptor(t))
	_, err := dialHop(t, addr, threeAttempts(t)...).UnaryCall(t.Context(), &grpc_testing.SimpleRequest{})
	if calls.Load() != 3 {
		t.Errorf("%d calls, %v, want 3", calls.Load(), err)
	}
}
