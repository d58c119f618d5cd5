package deadletter_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/retrysafe/retrysafe/dedup"
	ledgerv1 "github.com/retrysafe/retrysafe/gen/ledger/v1"
	"github.com/retrysafe/retrysafe/interceptor/deadletter"
	"github.com/retrysafe/retrysafe/interceptor/deadletter/sqlitequeue"
	"github.com/retrysafe/retrysafe/interceptor/idempotency"
	"github.com/retrysafe/retrysafe/interceptor/retry"
)

// A debit is executed, but no answer comes through. It is kept, and its replay
// gets the answer that was lost.
func Example() {
	if err := example(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// the caller gets Unavailable
	// kept: /ledger.v1.LedgerService/Debit, MAX_ATTEMPTS after 2 attempts
	// the replay gets entry 1, executed before: true
	// 0 letters are left
}

func example() error {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "letters")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	address := "unix:" + filepath.Join(dir, "ledger")
	var broken atomic.Bool
	broken.Store(true)
	stop, err := serveLedger(filepath.Join(dir, "ledger"), &broken)
	if err != nil {
		return err
	}
	defer stop()

	queue, err := sqlitequeue.Open(ctx, filepath.Join(dir, "letters.db"))
	if err != nil {
		return err
	}
	defer func() { _ = queue.Close() }()
	letters, err := deadletter.UnaryClientInterceptor(queue)
	if err != nil {
		return err
	}
	retries, err := retry.DialOptions(
		retry.WithPolicy(retry.Policy{MaxAttempts: 2, Backoff: retry.Backoff{Immediate: true}}))
	if err != nil {
		return err
	}
	opts := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithChainUnaryInterceptor(letters)}
	conn, err := grpc.NewClient(address, append(opts, retries...)...) // letters before retries
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()

	_, err = ledgerv1.NewLedgerServiceClient(conn).Debit(ctx, &ledgerv1.DebitRequest{AccountId: "alice"})
	fmt.Println("the caller gets", status.Code(err))

	broken.Store(false)
	kept, err := queue.List(ctx, "", 10)
	if err != nil {
		return err
	}
	for _, letter := range kept {
		fmt.Printf("kept: %s, %s after %d attempts\n", letter.GetMethod(), letter.GetReason(), letter.GetAttempts())
		answer, err := deadletter.Replay(ctx, queue, letter.GetId(), conn)
		if err != nil {
			return err
		}
		if answer.Err != nil { // the server's answer: settled or not
			return answer.Err
		}
		entry := answer.Reply.(*ledgerv1.DebitResponse).GetEntry()
		fmt.Printf("the replay gets entry %d, executed before: %t\n", entry.GetEntryId(), answer.Replayed)
	}
	left, err := queue.List(ctx, "", 10)
	fmt.Println(len(left), "letters are left")
	return err
}

// serveLedger serves a ledger whose responses are lost while it is broken.
func serveLedger(socket string, broken *atomic.Bool) (stop func(), err error) {
	lose := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		resp, err := handler(ctx, req)
		if broken.Load() {
			return nil, status.Error(codes.Unavailable, "the response was lost")
		}
		return resp, err
	}
	once, err := idempotency.UnaryServerInterceptor(dedup.NewMemory())
	if err != nil {
		return nil, err
	}
	srv := grpc.NewServer(grpc.ChainUnaryInterceptor(lose, once))
	ledgerv1.RegisterLedgerServiceServer(srv, new(ledger))
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	return func() { srv.Stop(); <-served }, nil
}
