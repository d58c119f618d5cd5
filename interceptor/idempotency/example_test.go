package idempotency_test

import (
	"context"
	"fmt"
	"log"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/retrysafe/retrysafe/dedup"
	ledgerv1 "github.com/retrysafe/retrysafe/gen/ledger/v1"
	"github.com/retrysafe/retrysafe/interceptor/idempotency"
)

func ExampleWithKey() {
	ctx := idempotency.WithKey(context.Background(), "order-42")
	k, _ := idempotency.KeyFromContext(ctx)
	fmt.Println(k)
	// Output: order-42
}

// ledger is the service of the examples. Its .proto says that Debit needs a
// key.
type ledger struct {
	ledgerv1.UnimplementedLedgerServiceServer
	debits int
}

func (l *ledger) Debit(_ context.Context, req *ledgerv1.DebitRequest) (*ledgerv1.DebitResponse, error) {
	l.debits++
	return &ledgerv1.DebitResponse{}, nil
}

// start serves l in memory, and returns a connection to it and what stops both.
func start(l *ledger, once grpc.UnaryServerInterceptor, opts ...grpc.DialOption) (*grpc.ClientConn, func()) {
	listener := bufconn.Listen(1 << 20)
	srv := grpc.NewServer(grpc.ChainUnaryInterceptor(once))
	ledgerv1.RegisterLedgerServiceServer(srv, l)
	done := make(chan error, 1)
	go func() { done <- srv.Serve(listener) }()
	opts = append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	conn, err := grpc.NewClient("passthrough:///ledger", opts...)
	if err != nil {
		log.Fatal(err)
	}
	return conn, func() {
		_ = conn.Close()
		srv.Stop()
		<-done
	}
}

// A client that heard no answer calls again with the same key. The debit is
// made once, and the second call gets the answer of the first.
func ExampleUnaryServerInterceptor() {
	once, err := idempotency.UnaryServerInterceptor(dedup.NewMemory(), idempotency.WithScope(func(ctx context.Context) (string, error) {
		return "tenant-7", nil // of the authenticated caller
	}))
	if err != nil {
		log.Fatal(err)
	}
	l := new(ledger)
	conn, stop := start(l, once)
	defer stop()
	client := ledgerv1.NewLedgerServiceClient(conn)

	ctx := metadata.AppendToOutgoingContext(context.Background(), idempotency.MetadataKey, "order-42")
	for range 2 {
		var header metadata.MD
		_, err := client.Debit(ctx, &ledgerv1.DebitRequest{}, grpc.Header(&header))
		fmt.Println(status.Code(err), header.Get("idempotency-replayed"))
	}
	fmt.Println("debits:", l.debits)

	_, err = client.Debit(context.Background(), &ledgerv1.DebitRequest{})
	fmt.Println(status.Code(err))
	// Output:
	// OK []
	// OK [true]
	// debits: 1
	// FailedPrecondition
}

// The client interceptor adds the key that the method needs. Here the caller
// chose one, so that repeating the whole call is a repeat too.
func ExampleUnaryClientInterceptor() {
	once, err := idempotency.UnaryServerInterceptor(dedup.NewMemory())
	if err != nil {
		log.Fatal(err)
	}
	keys, err := idempotency.UnaryClientInterceptor()
	if err != nil {
		log.Fatal(err)
	}
	l := new(ledger)
	conn, stop := start(l, once, grpc.WithChainUnaryInterceptor(keys))
	defer stop()
	client := ledgerv1.NewLedgerServiceClient(conn)

	ctx := idempotency.WithKey(context.Background(), "order-42")
	for range 2 {
		if _, err := client.Debit(ctx, &ledgerv1.DebitRequest{}); err != nil {
			log.Print(err)
			return
		}
	}
	fmt.Println("with the caller's key:", l.debits)
	for range 2 {
		if _, err := client.Debit(context.Background(), &ledgerv1.DebitRequest{}); err != nil {
			log.Print(err)
			return
		}
	}
	fmt.Println("with a new key each:", l.debits)
	// Output:
	// with the caller's key: 1
	// with a new key each: 3
}

// A method whose .proto says nothing is configured by name.
func ExampleWithMethodKey() {
	_, err := idempotency.UnaryServerInterceptor(dedup.NewMemory(),
		idempotency.WithMethodKey("/ledger.v1.LedgerService/*", idempotency.KeyOptional),
		idempotency.WithMethodKey("/ledger.v1.LedgerService/Debit", idempotency.KeyRequired),
		idempotency.WithMethodKey("/ledger.v1.LedgerService/Debet", idempotency.KeyRequired),
	)
	fmt.Println(err)
	// Output: idempotency: WithMethodKey: pattern "/ledger.v1.LedgerService/Debet": service ledger.v1.LedgerService has no method Debet
}

// A handler that knows that nothing has happened lets the next attempt run.
func ExampleServer() {
	s, err := idempotency.NewServer(dedup.NewMemory())
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close() // after the gRPC server has stopped, before the store is closed
	handler := func(ctx context.Context, _ any) (any, error) {
		if ex, ok := dedup.ExecutionFromContext(ctx); ok {
			fmt.Println("execution", ex.Attempt())
			ex.Settle(dedup.NoEffect)
		}
		return nil, status.Error(codes.Internal, "no paper in the printer")
	}
	ctx := metadata.NewIncomingContext(context.Background(), metadata.Pairs(idempotency.MetadataKey, "order-42"))
	info := &grpc.UnaryServerInfo{FullMethod: ledgerv1.LedgerService_Debit_FullMethodName}
	for range 2 {
		_, err := s.Intercept(ctx, &ledgerv1.DebitRequest{}, info, handler)
		fmt.Println(err)
	}
	// Output:
	// execution 1
	// rpc error: code = Internal desc = no paper in the printer
	// execution 2
	// rpc error: code = Internal desc = no paper in the printer
}
