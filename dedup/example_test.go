package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/retrysafe/retrysafe/dedup"
)

// A message that the broker delivers twice takes effect once.
func ExampleDo() {
	store := dedup.NewMemory()
	balance := 100
	consume := func(messageID string, payload []byte) error {
		result, err := dedup.Do(context.Background(), store, dedup.Operation{
			Key:         dedup.Key{Method: "payments.debited", ID: messageID},
			Fingerprint: dedup.FingerprintBytes(payload),
		}, func(context.Context) (dedup.Outcome, error) {
			balance -= 30
			return dedup.Outcome{}, nil
		})
		fmt.Println("balance", balance, "replayed", result.Replayed)
		return err
	}
	for range 2 {
		if err := consume("message-7", []byte(`{"amount":30}`)); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// balance 70 replayed false
	// balance 70 replayed true
}

func ExampleEngine_Do() {
	engine, err := dedup.NewEngine(dedup.NewMemory(), dedup.WithRetention(time.Hour))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()

	debit := func(request string) {
		op := dedup.Operation{
			Key:         dedup.Key{Scope: "tenant-1", Method: "/ledger.v1.LedgerService/Debit", ID: "order-42"},
			Fingerprint: dedup.FingerprintBytes([]byte(request)),
		}
		result, err := engine.Do(context.Background(), op, func(context.Context) (dedup.Outcome, error) {
			return dedup.Outcome{Code: codes.FailedPrecondition, Message: "insufficient funds"}, nil
		})
		switch {
		case errors.Is(err, dedup.ErrKeyReused):
			fmt.Println("refused:", err)
		case err != nil:
			fmt.Println("failed:", err)
		default:
			fmt.Println(result.Outcome.Code, result.Outcome.Message, result.Replayed)
		}
	}
	debit("30 EUR")
	debit("30 EUR")
	debit("40 EUR")
	// Output:
	// FailedPrecondition insufficient funds false
	// FailedPrecondition insufficient funds true
	// refused: dedup: the key came before with another request
}

// A handler that knows better than its code says so.
func ExampleExecution_Settle() {
	store := dedup.NewMemory()
	op := dedup.Operation{Key: dedup.Key{Method: "report", ID: "2026-03"}}
	for range 2 {
		result, err := dedup.Do(context.Background(), store, op, func(ctx context.Context) (dedup.Outcome, error) {
			if ex, ok := dedup.ExecutionFromContext(ctx); ok {
				fmt.Println("attempt", ex.Attempt())
				ex.Settle(dedup.Terminal)
			}
			return dedup.Outcome{Code: codes.ResourceExhausted, Message: "over the month's quota"}, nil
		})
		fmt.Println(result.Outcome.Code, result.Replayed, err)
	}
	// Output:
	// attempt 1
	// ResourceExhausted false <nil>
	// ResourceExhausted true <nil>
}

func ExampleInProgressError() {
	store := dedup.NewMemory()
	op := dedup.Operation{Key: dedup.Key{Method: "report", ID: "2026-03"}}
	held, err := store.Claim(context.Background(), dedup.ClaimRequest{
		Key: op.Key, Owner: dedup.Owner{1}, Lease: time.Minute, Retention: time.Hour,
	})
	fmt.Println(held.State, err)

	_, err = dedup.Do(context.Background(), store, op, nil, dedup.WithWait(time.Millisecond))
	var busy *dedup.InProgressError
	if errors.As(err, &busy) {
		fmt.Println("ask again in", busy.RetryAfter)
	}
	// Output:
	// claimed <nil>
	// ask again in 1s
}

func ExampleNewEngine_mistakes() {
	_, err := dedup.NewEngine(dedup.NewMemory(), dedup.WithLease(-time.Second), dedup.WithMaxWaiters(-1))
	fmt.Println(err)
	// Output:
	// dedup: WithLease: -1s is negative
	// dedup: WithMaxWaiters: -1 is negative
}

// Repeats that come to the process that executed are answered from its memory.
func ExampleNewCache() {
	remote := dedup.NewMemory() // or a store in PostgreSQL or Redis
	cache, err := dedup.NewCache(remote, dedup.WithCacheKeys(50_000), dedup.WithCacheTime(time.Minute))
	if err != nil {
		fmt.Println(err)
		return
	}
	engine, err := dedup.NewEngine(cache)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()

	op := dedup.Operation{Key: dedup.Key{Method: "/ledger.v1.LedgerService/Debit", ID: "order-42"}}
	for range 3 {
		result, err := engine.Do(context.Background(), op, func(context.Context) (dedup.Outcome, error) {
			return dedup.Outcome{Message: "debited"}, nil
		})
		fmt.Println(result.Outcome.Message, result.Replayed, err)
	}
	stats := cache.Stats()
	fmt.Println("asked the store", stats.Misses, "answered from memory", stats.Hits)
	// Output:
	// debited false <nil>
	// debited true <nil>
	// debited true <nil>
	// asked the store 1 answered from memory 2
}
