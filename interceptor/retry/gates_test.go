package retry_test

import (
	"context"
	"runtime"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/retrysafe/retrysafe/interceptor/retry"
)

// allocs returns the allocations of one run of f.
func allocs(t *testing.T, f func()) float64 {
	t.Helper()
	if raceEnabled {
		t.Skip("the race detector allocates and empties pools")
	}
	f() // plans, targets and pools are filled once
	return testing.AllocsPerRun(1000, f)
}

func TestACallThatSucceedsAtOnceDoesNotAllocate(t *testing.T) {
	req, reply := new(emptypb.Empty), new(emptypb.Empty)
	static := []grpc.CallOption{grpc.StaticMethod()}
	for _, tt := range []struct {
		name   string
		safety retry.Safety
		opts   []grpc.CallOption
		most   float64
	}{
		{"Unsafe", retry.SafetyUnsafe, nil, 0},
		{"Unsafe, with call options", retry.SafetyUnsafe, static, 0},
		{"Safe", retry.SafetySafe, nil, 0},
		{"Safe, with call options", retry.SafetySafe, static, 0},
		{"Keyed: what appending to the metadata and a key cost", retry.SafetyKeyed, nil, 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			intercept := newInterceptor(t, retry.WithMethodSafety("*", tt.safety))
			ctx := context.Background()
			got := allocs(t, func() { _ = intercept(ctx, method, req, reply, nil, succeed, tt.opts...) })
			if got > tt.most {
				t.Errorf("%v allocations, more than %v", got, tt.most)
			}
		})
	}
}

func TestAKeyedCallAllocatesFewBytes(t *testing.T) {
	const runs, most = 10_000, 208
	intercept := newInterceptor(t, retry.WithMethodSafety("*", retry.SafetyKeyed))
	req, reply, ctx := new(emptypb.Empty), new(emptypb.Empty), context.Background()
	call := func() { _ = intercept(ctx, method, req, reply, nil, succeed) }
	allocs(t, call)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		call()
	}
	runtime.ReadMemStats(&after)
	if got := float64(after.TotalAlloc-before.TotalAlloc) / runs; got > most {
		t.Errorf("%v bytes for each call, more than %v", got, most)
	}
}

func TestAFurtherAttemptAllocatesLittle(t *testing.T) {
	const most = 5
	req, reply := new(emptypb.Empty), new(emptypb.Empty)
	for _, safety := range []retry.Safety{retry.SafetySafe, retry.SafetyKeyed} {
		t.Run(safety.String(), func(t *testing.T) {
			perCall := func(attempts int) float64 {
				p := immediate
				p.MaxAttempts = attempts
				intercept := newInterceptor(t, retry.WithMethodSafety("*", safety), retry.WithPolicy(p), retry.WithoutBudget())
				down := answersDown
				return allocs(t, func() { _ = intercept(context.Background(), method, req, reply, nil, down) })
			}
			if got := (perCall(11) - perCall(1)) / 10; got > most {
				t.Errorf("%v allocations for each further attempt, more than %v", got, most)
			}
		})
	}
}

func answersDown(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
	return errDown
}

func TestAllocationsOverTCP(t *testing.T) {
	addr := startHop(t, func(context.Context, *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
		return new(grpc_testing.SimpleResponse), nil
	})
	perCall := func(opts ...grpc.DialOption) float64 {
		c, req, ctx := dialHop(t, addr, opts...), new(grpc_testing.SimpleRequest), context.Background()
		return allocs(t, func() {
			if _, err := c.UnaryCall(ctx, req); err != nil {
				t.Fatal(err)
			}
		})
	}
	bare := perCall()
	for _, tt := range []struct {
		name   string
		safety retry.Safety
		most   float64
	}{
		{"Unsafe", retry.SafetyUnsafe, 1},
		{"Safe", retry.SafetySafe, 1},
		{"Keyed, both sides of the wire", retry.SafetyKeyed, 13},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := perCall(dialOptions(t, retry.WithMethodSafety("*", tt.safety))...) - bare
			t.Logf("%v allocations over the bare call", got)
			if got > tt.most {
				t.Errorf("%v allocations over the bare call, more than %v", got, tt.most)
			}
		})
	}
}
