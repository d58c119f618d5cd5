package retry_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/retrysafe/retrysafe/interceptor/idempotency"
	"github.com/retrysafe/retrysafe/interceptor/retry"
)

// A service that answers UNAVAILABLE a few times stands for the network in
// these examples. It prints what arrives.
func flaky(failures int) grpc.UnaryInvoker {
	return func(ctx context.Context, method string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
		md, _ := metadata.FromOutgoingContext(ctx)
		fmt.Println("attempt", md.Get("grpc-previous-rpc-attempts"), md.Get("idempotency-key"))
		if failures > 0 {
			failures--
			return status.Error(codes.Unavailable, "try later")
		}
		return nil
	}
}

// A policy per dependency: a rate that may take hours, a carrier that answers
// within seconds, and a short default for the rest.
func Example() {
	retries, err := retry.DialOptions(
		retry.WithPolicy(retry.Policy{MaxAttempts: 3, MaxElapsed: 2 * time.Second}),
		retry.WithMethodPolicy("/fx.v1.Rates/*", retry.Policy{
			MaxAttempts: 4,
			Backoff:     retry.Backoff{Base: 15 * time.Minute, Cap: 6 * time.Hour},
		}),
		retry.WithMethodPolicy("/carrier.v1.Labels/Buy", retry.Policy{
			MaxAttempts:       6,
			Backoff:           retry.Backoff{Base: time.Second, Cap: 30 * time.Second, Jitter: retry.JitterEqual},
			PerAttemptTimeout: 10 * time.Second,
		}),
		retry.WithMethodSafety("/fx.v1.Rates/*", retry.SafetySafe),
		retry.WithMethodSafety("/carrier.v1.Labels/Buy", retry.SafetyKeyed),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	creds := grpc.WithTransportCredentials(insecure.NewCredentials())
	conn, err := grpc.NewClient("dns:///gateway.internal:443", append(retries, creds)...)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	fmt.Println(conn.Target())
	// Output: dns:///gateway.internal:443
}

// A service with a wrong policy fails when it starts, and learns of every
// mistake at once.
func ExampleUnaryClientInterceptor() {
	_, err := retry.UnaryClientInterceptor(
		retry.WithPolicy(retry.Policy{MaxElapsed: -time.Second}),
		retry.WithMethodPolicy("carrier.v1.Labels.Buy", retry.Policy{}),
	)
	fmt.Println(err)
	// Output:
	// retry: WithPolicy: pattern "*": MaxElapsed: -1s is negative
	// WithMethodPolicy: pattern "carrier.v1.Labels.Buy" is none of /package.Service/Method, /package.Service/* and *
}

func ExampleExhaustedError() {
	intercept, err := retry.UnaryClientInterceptor(
		retry.WithPolicy(retry.Policy{MaxAttempts: 2, Backoff: retry.Backoff{Immediate: true}}),
		retry.WithMethodSafety("/ledger.v1.LedgerService/Debit", retry.SafetyKeyed))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := idempotency.WithKey(context.Background(), "order-42")
	err = intercept(ctx, "/ledger.v1.LedgerService/Debit", nil, nil, nil, flaky(9))

	var ex *retry.ExhaustedError
	if errors.As(err, &ex) && ex.Reason.BudgetExhausted() {
		fmt.Println(ex.Reason, "after", ex.Attempts, "attempts:", status.Code(err))
		fmt.Println("may have happened; ask again with", ex.IdempotencyKey())
	}
	// Output:
	// attempt [] [order-42]
	// attempt [1] [order-42]
	// MAX_ATTEMPTS after 2 attempts: Unavailable
	// may have happened; ask again with order-42
}

// A caller's own key: all attempts carry it, and so does a call that is made
// again later.
func Example_ownKey() {
	intercept, err := retry.UnaryClientInterceptor(
		retry.WithPolicy(retry.Policy{Backoff: retry.Backoff{Immediate: true}}),
		retry.WithMethodSafety("*", retry.SafetyKeyed))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := idempotency.WithKey(context.Background(), "order-42")
	err = intercept(ctx, "/shop.v1.Orders/Place", nil, nil, nil, flaky(1))
	fmt.Println(err)
	// Output:
	// attempt [] [order-42]
	// attempt [1] [order-42]
	// <nil>
}

// One attempt for one call, such as a probe that shall see every failure.
func ExampleDisable() {
	intercept, err := retry.UnaryClientInterceptor(retry.WithMethodSafety("*", retry.SafetySafe))
	if err != nil {
		fmt.Println(err)
		return
	}
	err = intercept(context.Background(), "/shop.v1.Orders/List", nil, nil, nil, flaky(9), retry.Disable())
	fmt.Println(err)
	// Output:
	// attempt [] []
	// rpc error: code = Unavailable desc = try later
}

// What a user of grpc-go's configured retries has keeps working, and says in
// addition which methods may be retried.
func ExampleWithServiceConfig() {
	const config = `{
	  "methodConfig": [{
	    "name": [{"service": "shop.v1.Orders"}],
	    "timeout": "10s",
	    "retryPolicy": {
	      "maxAttempts": 4, "initialBackoff": "0.001s", "maxBackoff": "0.01s", "backoffMultiplier": 2,
	      "retryableStatusCodes": ["UNAVAILABLE"]
	    }
	  }],
	  "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}
	}`
	intercept, err := retry.UnaryClientInterceptor(
		retry.WithServiceConfig(config),
		retry.WithMethodSafety("/shop.v1.Orders/List", retry.SafetySafe))
	if err != nil {
		fmt.Println(err)
		return
	}
	err = intercept(context.Background(), "/shop.v1.Orders/List", nil, nil, nil, flaky(2))
	fmt.Println(err)
	// Output:
	// attempt [] []
	// attempt [1] []
	// attempt [2] []
	// <nil>
}

// Code with a loop of its own keeps the layers below to one attempt for each
// of its rounds.
func ExampleOwn() {
	intercept, err := retry.UnaryClientInterceptor(retry.WithMethodSafety("*", retry.SafetyKeyed))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := retry.Own(idempotency.WithKey(context.Background(), "order-42"), "orchestrator")
	server := flaky(1)
	for round := 1; ; round++ {
		err := intercept(ctx, "/shop.v1.Orders/Place", nil, nil, nil, server)
		fmt.Println("round", round, status.Code(err))
		if err == nil {
			break
		}
	}
	// Output:
	// attempt [] [order-42]
	// round 1 Unavailable
	// attempt [] [order-42]
	// round 2 OK
}
