package deadletter_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	ledgerv1 "github.com/retrysafe/retrysafe/gen/ledger/v1"
	"github.com/retrysafe/retrysafe/interceptor/deadletter"
	"github.com/retrysafe/retrysafe/interceptor/deadletter/sqlitequeue"
	"github.com/retrysafe/retrysafe/interceptor/retry"
)

// A call to a server that is down is kept, listed, and discarded.
func Example() {
	if err := example(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// the caller gets Unavailable
	// kept: /ledger.v1.LedgerService/Debit, MAX_ATTEMPTS after 2 attempts
	// discarded
}

func example() error {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "letters")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	queue, err := sqlitequeue.Open(ctx, filepath.Join(dir, "letters.db"))
	if err != nil {
		return err
	}
	defer func() { _ = queue.Close() }()

	letters, err := deadletter.UnaryClientInterceptor(queue)
	if err != nil {
		return err
	}
	retries, err := retry.UnaryClientInterceptor(
		retry.WithPolicy(retry.Policy{MaxAttempts: 2, Backoff: retry.Backoff{Immediate: true}}))
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient("unix:"+filepath.Join(dir, "nobody-listens"),
		grpc.WithChainUnaryInterceptor(letters, retries), // letters first
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()

	_, err = ledgerv1.NewLedgerServiceClient(conn).Debit(ctx, &ledgerv1.DebitRequest{AccountId: "alice"})
	fmt.Println("the caller gets", status.Code(err))

	kept, err := queue.List(ctx, "", 10)
	if err != nil {
		return err
	}
	for _, letter := range kept {
		fmt.Printf("kept: %s, %s after %d attempts\n", letter.GetMethod(), letter.GetReason(), letter.GetAttempts())
		// Once the server is back: deadletter.Replay(ctx, queue, letter.GetId(), conn)
		if err := queue.Remove(ctx, letter.GetId()); err != nil {
			return err
		}
		fmt.Println("discarded")
	}
	return nil
}
