package deadletter_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/retrysafe/retrysafe/dedup"
	ledgerv1 "github.com/retrysafe/retrysafe/gen/ledger/v1"
	"github.com/retrysafe/retrysafe/interceptor/deadletter"
	"github.com/retrysafe/retrysafe/interceptor/deadletter/sqlitequeue"
	"github.com/retrysafe/retrysafe/interceptor/idempotency"
	"github.com/retrysafe/retrysafe/interceptor/retry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ledger counts debits. It answers what fault says, or a debit that is refused
// where the account is "broke".
type ledger struct {
	ledgerv1.UnimplementedLedgerServiceServer
	debits, reads atomic.Int64
}

func (l *ledger) Debit(_ context.Context, req *ledgerv1.DebitRequest) (*ledgerv1.DebitResponse, error) {
	n := l.debits.Add(1)
	if req.GetAccountId() == "broke" {
		return nil, status.Error(codes.FailedPrecondition, "insufficient funds")
	}
	return &ledgerv1.DebitResponse{Entry: &ledgerv1.Entry{EntryId: n, AccountId: req.GetAccountId()}}, nil
}

func (l *ledger) GetAccount(context.Context, *ledgerv1.GetAccountRequest) (*ledgerv1.GetAccountResponse, error) {
	l.reads.Add(1)
	return &ledgerv1.GetAccountResponse{}, nil
}

// world is a ledger server with deduplication, behind a network that loses
// requests or responses, and a queue of dead letters.
type world struct {
	ledger *ledger
	// loseRequests and loseResponses are how many of the next calls fail before
	// or after they are executed.
	loseRequests, loseResponses atomic.Int64

	queue  deadletter.Queue
	conn   *grpc.ClientConn // with dead letters and retries
	plain  *grpc.ClientConn // with neither
	client ledgerv1.LedgerServiceClient
}

func newWorld(t *testing.T, queue deadletter.Queue, opts ...deadletter.Option) *world {
	t.Helper()
	w := &world{ledger: new(ledger), queue: queue}
	once, err := idempotency.UnaryServerInterceptor(dedup.NewMemory())
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer(grpc.ChainUnaryInterceptor(w.network, once))
	ledgerv1.RegisterLedgerServiceServer(srv, w.ledger)
	l := bufconn.Listen(1 << 16)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})

	letters, err := deadletter.UnaryClientInterceptor(queue, opts...)
	if err != nil {
		t.Fatal(err)
	}
	retries, err := retry.UnaryClientInterceptor(retry.WithPolicy(retry.Policy{MaxAttempts: 2, Backoff: retry.Backoff{Immediate: true}}))
	if err != nil {
		t.Fatal(err)
	}
	w.conn = dial(t, l, grpc.WithChainUnaryInterceptor(letters, retries))
	w.plain = dial(t, l)
	w.client = ledgerv1.NewLedgerServiceClient(w.conn)
	return w
}

func dial(t *testing.T, l *bufconn.Listener, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///ledger", append(opts,
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return conn
}

// network stands before everything else of the server.
func (w *world) network(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if w.loseRequests.Add(-1) >= 0 {
		return nil, status.Error(codes.Unavailable, "the request was lost")
	}
	resp, err := handler(ctx, req)
	if w.loseResponses.Add(-1) >= 0 {
		return nil, status.Error(codes.Unavailable, "the response was lost")
	}
	return resp, err
}

func newQueue(t *testing.T) *sqlitequeue.Queue {
	t.Helper()
	q, err := sqlitequeue.Open(context.Background(), filepath.Join(t.TempDir(), "letters.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	return q
}

func letters(t *testing.T, q deadletter.Queue) []*deadletter.Letter {
	t.Helper()
	all, err := q.List(context.Background(), "", 100)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// one returns the only letter.
func one(t *testing.T, q deadletter.Queue) *deadletter.Letter {
	t.Helper()
	all := letters(t, q)
	if len(all) != 1 {
		t.Fatalf("%d letters, want 1", len(all))
	}
	return all[0]
}

var errOutage = errors.New("the queue is down")

// brokenQueue is one that is down.
type brokenQueue struct{ deadletter.Queue }

func (brokenQueue) Put(context.Context, *deadletter.Letter) error { return errOutage }
