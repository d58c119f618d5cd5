package gates

import (
	"context"

	"github.com/failsafe-go/failsafe-go/failsafegrpc"
	middleware "github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/retry"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ledgerv1 "github.com/retrysafe/retrysafe/gen/ledger/v1"
	"github.com/retrysafe/retrysafe/interceptor/retry"
)

// method is one that the client gates call. Its .proto says that it is keyed;
// what they say by options goes before that.
const method = ledgerv1.LedgerService_Debit_FullMethodName

// Names of ways, as the table shows them.
const (
	goGRPCMiddleware = "go-grpc-middleware"
	failsafeGo       = "failsafe-go"
)

var errDown = status.Error(codes.Unavailable, "down")

func debitRequest() *ledgerv1.DebitRequest {
	return &ledgerv1.DebitRequest{
		AccountId: "0190c2b4-77f0-7000-8000-5d1f3c2b1a09", Reference: "invoice 2024-0815",
		Amount: &ledgerv1.Money{Currency: "EUR", MinorUnits: 1250},
	}
}

// caller makes one call through an interceptor to an invoker.
type caller struct {
	ctx       context.Context
	intercept grpc.UnaryClientInterceptor
	invoker   grpc.UnaryInvoker
	request   *ledgerv1.DebitRequest
	reply     *ledgerv1.DebitResponse
}

func newCaller(intercept grpc.UnaryClientInterceptor, invoker grpc.UnaryInvoker) *caller {
	return &caller{context.Background(), intercept, invoker, debitRequest(), new(ledgerv1.DebitResponse)}
}

func (c *caller) call() error {
	return c.intercept(c.ctx, method, c.request, c.reply, nil, c.invoker)
}

// succeed is an invoker that costs nothing.
func succeed(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
	return nil
}

// failing returns an invoker that fails the first n attempts of each call. It
// is for one goroutine.
func failing(n int) grpc.UnaryInvoker {
	made := 0
	return func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
		made++
		if made%(n+1) == 0 {
			return nil
		}
		return errDown
	}
}

// defaultPolicy is what a method gets whose .proto says nothing of retries.
var defaultPolicy = retry.WithPolicy(retry.Policy{})

// ours returns a caller of the interceptor whose every method has the safety
// class, and the default policy unless opts say otherwise.
func ours(safety retry.Safety, invoker grpc.UnaryInvoker, opts ...retry.Option) (*caller, error) {
	intercept, err := retry.UnaryClientInterceptor(append([]retry.Option{defaultPolicy, retry.WithMethodSafety("*", safety)}, opts...)...)
	if err != nil {
		return nil, err
	}
	return newCaller(intercept, invoker), nil
}

// middlewares returns a caller of go-grpc-middleware's interceptor that makes
// so many attempts without a wait.
func middlewares(attempts uint, invoker grpc.UnaryInvoker) *caller {
	return newCaller(middleware.UnaryClientInterceptor(middleware.WithMax(attempts),
		middleware.WithCodes(codes.Unavailable), middleware.WithBackoff(middleware.BackoffLinear(0))), invoker)
}

// failsafes returns a caller of failsafe-go's interceptor that makes so many
// attempts without a wait.
func failsafes(attempts int, invoker grpc.UnaryInvoker) *caller {
	policy := failsafegrpc.NewRetryPolicyBuilder[any]().WithMaxAttempts(attempts).Build()
	return newCaller(failsafegrpc.NewUnaryClientInterceptor(policy), invoker)
}
