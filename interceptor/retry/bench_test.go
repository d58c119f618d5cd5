package retry_test

import (
	"context"
	"testing"

	middleware "github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/retry"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/retrysafe/retrysafe/interceptor/internal/key"
	"github.com/retrysafe/retrysafe/interceptor/retry"
)

func succeed(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
	return nil
}

// failing returns an invoker that fails the first n attempts of each call.
func failing(n int) grpc.UnaryInvoker {
	err, made := status.Error(codes.Unavailable, "down"), 0
	return func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
		made++
		if made%(n+1) == 0 {
			return nil
		}
		return err
	}
}

// immediate makes many attempts without a wait.
var immediate = retry.Policy{MaxAttempts: 10, Backoff: retry.Backoff{Immediate: true}}

func BenchmarkNothingFails(b *testing.B) {
	ctx := context.Background()
	req, reply := new(emptypb.Empty), new(emptypb.Empty)
	for _, bench := range []struct {
		name   string
		safety retry.Safety
	}{{"unsafe", retry.SafetyUnsafe}, {"safe", retry.SafetySafe}, {"keyed", retry.SafetyKeyed}} {
		b.Run(bench.name, func(b *testing.B) {
			intercept := newInterceptor(b, retry.WithMethodSafety("*", bench.safety))
			b.ReportAllocs()
			for b.Loop() {
				_ = intercept(ctx, "/test.v1.Test/Call", req, reply, nil, succeed)
			}
		})
	}
	b.Run("safe/parallel", func(b *testing.B) {
		intercept := newInterceptor(b, retry.WithMethodSafety("*", retry.SafetySafe))
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				_ = intercept(ctx, "/test.v1.Test/Call", req, reply, nil, succeed)
			}
		})
	})
	b.Run("peer/go-grpc-middleware", func(b *testing.B) {
		intercept := middleware.UnaryClientInterceptor(middleware.WithMax(3))
		b.ReportAllocs()
		for b.Loop() {
			_ = intercept(ctx, "/test.v1.Test/Call", req, reply, nil, succeed)
		}
	})
	b.Run("peer/append and key", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ctx := metadata.AppendToOutgoingContext(ctx, "idempotency-key", key.New(), "retry-owner", "retrysafe")
			_ = succeed(ctx, "/test.v1.Test/Call", req, reply, nil)
		}
	})
}

func BenchmarkFurtherAttempts(b *testing.B) {
	ctx := context.Background()
	req, reply := new(emptypb.Empty), new(emptypb.Empty)
	b.Run("safe", func(b *testing.B) {
		intercept := newInterceptor(b, retry.WithMethodSafety("*", retry.SafetySafe), retry.WithPolicy(immediate), retry.WithoutBudget())
		invoker := failing(9)
		b.ReportAllocs()
		for b.Loop() {
			_ = intercept(ctx, "/test.v1.Test/Call", req, reply, nil, invoker)
		}
	})
	b.Run("keyed", func(b *testing.B) {
		intercept := newInterceptor(b, retry.WithMethodSafety("*", retry.SafetyKeyed), retry.WithPolicy(immediate), retry.WithoutBudget())
		invoker := failing(9)
		b.ReportAllocs()
		for b.Loop() {
			_ = intercept(ctx, "/test.v1.Test/Call", req, reply, nil, invoker)
		}
	})
	b.Run("peer/go-grpc-middleware", func(b *testing.B) {
		intercept := middleware.UnaryClientInterceptor(middleware.WithMax(10), middleware.WithCodes(codes.Unavailable), middleware.WithBackoff(middleware.BackoffLinear(0)))
		invoker := failing(9)
		b.ReportAllocs()
		for b.Loop() {
			_ = intercept(ctx, "/test.v1.Test/Call", req, reply, nil, invoker)
		}
	})
}
