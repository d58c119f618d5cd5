package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"google.golang.org/grpc"

	ledgerv1 "github.com/retrysafe/retrysafe/gen/ledger/v1"
	"github.com/retrysafe/retrysafe/interceptor/idempotency"
	"github.com/retrysafe/retrysafe/interceptor/retry"
	"github.com/retrysafe/retrysafe/ledgerdemo/ledger"
)

// childVariable holds the config of a server, in a process of its own: this
// program, started again.
const childVariable = "RETRYSAFE_TORTURE_SERVER"

// config is what a server is told.
type config struct {
	Kind kind
	// Store is where the store is: a file or a URL.
	Store string
	// Ledger is where the ledger is, if it is not in the store's database.
	Ledger string
	Lease  time.Duration
	Plan   plan
	Bug    bug
}

// bug is what is wrong with a server, for tests of the tests.
type bug string

const (
	noBug bug = ""
	// noDedup: the idempotency interceptor is left out.
	noDedup bug = "no deduplication"
	// recordApart: a transactional store's record is not in the transaction of
	// the handler's writes.
	recordApart bug = "the record is outside the transaction"
	// noFence: a claim that has been lost can still be completed.
	noFence bug = "no fence check"
)

// runChild is a server's main. It takes connections from the listener that it
// inherits, and ends when the process that started it does.
func runChild(said string) int {
	var c config
	err := json.Unmarshal([]byte(said), &c)
	if err == nil {
		m := &mine{plan: c.Plan, goOn: make(chan struct{}, 1)}
		go obey(m)
		err = serveChild(context.Background(), c, m)
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// obey reads from standard input the word to go on, and its end.
func obey(m *mine) {
	for word := make([]byte, 1); ; {
		if _, err := os.Stdin.Read(word); err != nil {
			os.Exit(0)
		}
		m.goOn <- struct{}{}
	}
}

func serveChild(ctx context.Context, c config, m *mine) error {
	listener, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	store, storage, err := open(ctx, c, logger)
	if err != nil {
		return err
	}
	once, err := idempotency.NewServer(inPlaceOf(store, minedStore{store, m}), idempotency.WithLogger(logger), idempotency.WithLease(c.Lease))
	if err != nil {
		return err
	}
	owner, err := retry.UnaryServerInterceptor(retry.WithLogger(logger))
	if err != nil {
		return err
	}
	chain := []grpc.UnaryServerInterceptor{m.outermost, recovery.UnaryServerInterceptor(), owner, once.Intercept, m.innermost}
	if c.Bug == noDedup {
		chain = []grpc.UnaryServerInterceptor{m.outermost, m.innermost}
	}
	srv := grpc.NewServer(grpc.ChainUnaryInterceptor(chain...), grpc.StatsHandler(transport{m}))
	service := ledger.NewService(minedStorage{storage, m}, ledger.WithLogger(logger))
	ledgerv1.RegisterLedgerServiceServer(srv, service)
	registerStrict(srv, service)
	logger.Info("serves", "kind", c.Kind)
	return srv.Serve(listener)
}
