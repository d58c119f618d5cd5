package retry_test

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/retrysafe/retrysafe/interceptor/idempotency"
	"github.com/retrysafe/retrysafe/interceptor/retry"
)

// hopLog is a service that fails its first calls and keeps what it was sent.
type hopLog struct {
	mu    sync.Mutex
	calls []metadata.MD
	fails int
	fail  func(ctx context.Context) error // nil: UNAVAILABLE
}

func (h *hopLog) unary(ctx context.Context, req *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	h.mu.Lock()
	h.calls = append(h.calls, md)
	n := len(h.calls)
	h.mu.Unlock()
	if n > h.fails {
		return &grpc_testing.SimpleResponse{Username: "served"}, nil
	}
	if h.fail != nil {
		return nil, h.fail(ctx)
	}
	return nil, errDown
}

func (h *hopLog) values(name string) [][]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all [][]string
	for _, md := range h.calls {
		all = append(all, md.Get(name))
	}
	return all
}

var insecureCreds = grpc.WithTransportCredentials(insecure.NewCredentials())

// quick retries without a wait.
var quick = retry.WithPolicy(retry.Policy{MaxAttempts: 3, Backoff: retry.Backoff{Immediate: true}})

func dialOptions(t *testing.T, opts ...retry.Option) []grpc.DialOption {
	t.Helper()
	all, err := retry.DialOptions(opts...)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestOnTheWire(t *testing.T) {
	h := &hopLog{fails: 2}
	c := dialHop(t, startHop(t, h.unary), dialOptions(t, keyed, quick, retry.WithOwner("checkout"))...)
	resp, err := c.UnaryCall(idempotency.WithKey(t.Context(), "order-42"), new(grpc_testing.SimpleRequest))
	if err != nil || resp.GetUsername() != "served" {
		t.Fatalf("UnaryCall = %v, %v", resp, err)
	}
	for name, want := range map[string][][]string{
		"idempotency-key":            {{"order-42"}, {"order-42"}, {"order-42"}},
		"retry-owner":                {{"checkout"}, {"checkout"}, {"checkout"}},
		"grpc-previous-rpc-attempts": {nil, {"1"}, {"2"}},
	} {
		if got := h.values(name); !equal(got, want) {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// grpc-go's own retries of a service config, and the interceptor's.
const configuredRetries = `{"methodConfig":[{"name":[{}],"retryPolicy":{
	"maxAttempts":4,"initialBackoff":"0.001s","maxBackoff":"0.001s","backoffMultiplier":1,"retryableStatusCodes":["UNAVAILABLE"]}}]}`

func TestDialOptionsTurnConfiguredRetriesOff(t *testing.T) {
	for _, tt := range []struct {
		name  string
		opts  []grpc.DialOption
		calls int
	}{
		{"with DialOptions", dialOptions(t, quick, retry.WithMethodSafety("*", retry.SafetySafe)), 3},
		{"with DialOptions, an Unsafe call", dialOptions(t, quick), 1},
		{"grpc-go alone", nil, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &hopLog{fails: 100}
			c := dialHop(t, startHop(t, h.unary), append(tt.opts, grpc.WithDefaultServiceConfig(configuredRetries))...)
			_, err := c.UnaryCall(t.Context(), new(grpc_testing.SimpleRequest))
			wantCode(t, err, codes.Unavailable)
			if got := len(h.calls); got != tt.calls {
				t.Errorf("the server saw %d calls, want %d", got, tt.calls)
			}
		})
	}
}

func TestRealTrailersPushBack(t *testing.T) {
	for _, tt := range []struct {
		name, value string
		reason      retry.Reason
		calls       int
		atLeast     time.Duration
	}{
		{"stop", "-1", retry.ReasonPushback, 1, 0},
		{"wait", "20", retry.ReasonMaxAttempts, 3, 40 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &hopLog{fails: 100, fail: func(ctx context.Context) error {
				return cmpErr(grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", tt.value)), errDown)
			}}
			c := dialHop(t, startHop(t, h.unary), dialOptions(t, quick, retry.WithMethodSafety("*", retry.SafetySafe))...)
			start := time.Now()
			_, err := c.UnaryCall(t.Context(), new(grpc_testing.SimpleRequest))
			exhausted(t, err, tt.reason)
			if got := len(h.calls); got != tt.calls {
				t.Errorf("the server saw %d calls, want %d", got, tt.calls)
			}
			if got := time.Since(start); got < tt.atLeast {
				t.Errorf("it took %v, less than %v", got, tt.atLeast)
			}
		})
	}
}

// cmpErr returns the first error that is not nil.
func cmpErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestAnErrorAfterHeadersIsRetriedAllTheSame(t *testing.T) {
	h := &hopLog{fails: 2, fail: func(ctx context.Context) error {
		return cmpErr(grpc.SendHeader(ctx, metadata.Pairs("attempt", "failed")), grpc.SetTrailer(ctx, metadata.Pairs("attempt", "failed")), errDown)
	}}
	c := dialHop(t, startHop(t, h.unary), dialOptions(t, quick, retry.WithMethodSafety("*", retry.SafetySafe))...)
	var header, trailer metadata.MD
	if _, err := c.UnaryCall(t.Context(), new(grpc_testing.SimpleRequest), grpc.Header(&header), grpc.Trailer(&trailer)); err != nil {
		t.Fatal(err)
	}
	if len(h.calls) != 3 {
		t.Errorf("the server saw %d calls, want 3", len(h.calls))
	}
	if header.Get("attempt") != nil || trailer.Get("attempt") != nil {
		t.Errorf("header %v and trailer %v are of an earlier attempt", header, trailer)
	}
}

func TestAnAttemptsOwnTimeoutIsRetriedOnTheWire(t *testing.T) {
	h := &hopLog{fails: 1, fail: func(ctx context.Context) error {
		<-ctx.Done()
		return status.FromContextError(ctx.Err()).Err()
	}}
	p := retry.Policy{PerAttemptTimeout: 100 * time.Millisecond, Backoff: retry.Backoff{Immediate: true}, MaxAttempts: 50}
	c := dialHop(t, startHop(t, h.unary), dialOptions(t, retry.WithPolicy(p), retry.WithMethodSafety("*", retry.SafetySafe))...)
	if _, err := c.UnaryCall(t.Context(), new(grpc_testing.SimpleRequest)); err != nil {
		t.Error(err)
	}
}

func TestAServersDeadlineExceededBeforeTheClientsOwnIsRetried(t *testing.T) {
	h := &hopLog{fails: 1, fail: func(context.Context) error { return errSlow }}
	c := dialHop(t, startHop(t, h.unary), dialOptions(t, quick, retry.WithMethodSafety("*", retry.SafetySafe))...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := c.UnaryCall(ctx, new(grpc_testing.SimpleRequest)); err != nil {
		t.Error(err)
	}
}

// With WaitForReady an attempt waits for a connection as long as its own
// timeout lets it, and the next one goes on waiting.
func TestWaitForReady(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	retried := make(chan struct{}, 1)
	p := retry.Policy{MaxAttempts: 1000, PerAttemptTimeout: 50 * time.Millisecond, Backoff: retry.Backoff{Immediate: true}}
	c := dialHop(t, addr, dialOptions(t, retry.WithPolicy(p), retry.WithoutBudget(), retry.WithMethodSafety("*", retry.SafetySafe),
		retry.WithOnRetry(func(context.Context, retry.Retry) {
			select {
			case retried <- struct{}{}:
			default:
			}
		}))...)
	done := make(chan error, 1)
	go func() {
		_, err := c.UnaryCall(t.Context(), new(grpc_testing.SimpleRequest), grpc.WaitForReady(true))
		done <- err
	}()
	<-retried
	l, err = net.Listen("tcp", addr)
	if err != nil {
		t.Skipf("the port was taken meanwhile: %v", err)
	}
	srv := grpc.NewServer()
	grpc_testing.RegisterTestServiceServer(srv, unaryService{unary: new(hopLog).unary})
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(srv.Stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A connection to fail over to may retry by itself: under the first one's
// interceptor it makes one attempt at a time.
func TestFailoverToAConnectionThatRetries(t *testing.T) {
	first, second := &hopLog{fails: 100}, &hopLog{fails: 2}
	safe := retry.WithMethodSafety("*", retry.SafetySafe)
	to, err := grpc.NewClient("passthrough:///"+startHop(t, second.unary), append(dialOptions(t, quick, safe), insecureCreds)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = to.Close() })
	c := dialHop(t, startHop(t, first.unary), dialOptions(t, quick, safe, retry.WithFailover(to))...)
	if _, err := c.UnaryCall(t.Context(), new(grpc_testing.SimpleRequest)); err != nil {
		t.Fatal(err)
	}
	if got := second.values("grpc-previous-rpc-attempts"); !equal(got, [][]string{{"3"}, {"4"}, {"5"}}) {
		t.Errorf("counts at the second target are %q", got)
	}
}

func TestAKeyIsNeverInAnErrorOnTheWire(t *testing.T) {
	h := &hopLog{fails: 100}
	c := dialHop(t, startHop(t, h.unary), dialOptions(t, quick, keyed)...)
	_, err := c.UnaryCall(idempotency.WithKey(t.Context(), "order-42"), new(grpc_testing.SimpleRequest))
	exhausted(t, err, retry.ReasonMaxAttempts)
	st := status.Convert(err)
	if slices.ContainsFunc([]string{err.Error(), st.Message(), st.String()}, func(s string) bool { return strings.Contains(s, "order-42") }) {
		t.Error("the error shows the key")
	}
}
