package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	ledgerv1 "github.com/retrysafe/retrysafe/gen/ledger/v1"
	"github.com/retrysafe/retrysafe/interceptor/idempotency"
	"github.com/retrysafe/retrysafe/ledgerdemo/database"
	"github.com/retrysafe/retrysafe/ledgerdemo/faults"
	"github.com/retrysafe/retrysafe/ledgerdemo/ledger"
)

// stopTimeout bounds how long calls under way are waited for when the server
// stops. It is longer than any of the ledger's executions may take.
const stopTimeout = 10 * time.Second

// Config says what to serve.
type Config struct {
	// Addr is the TCP address to listen on, such as "127.0.0.1:7420". Port 0
	// means any free port.
	Addr string
	// Store is where outcomes are recorded. In SQLite and PostgreSQL the ledger
	// is there too, and both are one transaction. A file is created where it
	// does not exist, and so are tables.
	Store database.URL
	// Ledger is where the ledger is, where Store is Redis, and nowhere
	// otherwise.
	Ledger database.URL
	// Prefix begins the names of all keys in Redis. Empty means redisstore's
	// own.
	Prefix string
	// Lease is how long a claim in Redis outlives a server that died. 0 means
	// the engine's 30 s.
	Lease time.Duration
	// OnUnknown, where it is not nil, is called before an operation is executed
	// of which nobody knows whether it was before. It happens in Redis alone.
	OnUnknown func()
	// WithoutDedup leaves the idempotency interceptor out: the same handlers,
	// and every attempt executes.
	WithoutDedup bool
	// Faults are made on purpose. The zero Plan makes none.
	Faults faults.Plan
	// OnFault, where it is not nil, is called for each fault when it is made.
	OnFault func(faults.Kind)
	// Logger gets a line for each call. Nil means no log.
	Logger *slog.Logger
}

// Run serves until ctx ends, and then stops gracefully: it takes no new calls
// and finishes those under way. It calls ready, where it is not nil, with the
// address once calls are taken. It returns nil where it was stopped by ctx.
func Run(ctx context.Context, c Config, ready func(net.Addr)) (err error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	injector, err := faults.NewInjector(c.Faults, c.OnFault)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", c.Addr)
	if err != nil {
		return err
	}
	defer listener.Close() // the gRPC server closes it too, once it serves
	kept, err := open(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kept.close()) }()
	once, err := idempotency.NewServer(kept.store, idempotency.WithLogger(c.Logger), idempotency.WithLease(c.Lease))
	if err != nil {
		return err
	}
	defer once.Close()
	interceptors, err := chain(c, injector, once)
	if err != nil {
		return err
	}
	srv := grpc.NewServer(grpc.ChainUnaryInterceptor(interceptors...))
	ledgerv1.RegisterLedgerServiceServer(srv, ledger.NewService(kept.ledger, ledger.WithLogger(c.Logger)))
	return serve(ctx, srv, listener, ready)
}

func serve(ctx context.Context, srv *grpc.Server, listener net.Listener, ready func(net.Addr)) error {
	alive := health.NewServer()
	alive.SetServingStatus(ledgerv1.LedgerService_ServiceDesc.ServiceName, healthv1.HealthCheckResponse_SERVING)
	healthv1.RegisterHealthServer(srv, alive)
	reflection.Register(srv)

	served := make(chan error, 1)
	go func() { served <- srv.Serve(listener) }()
	if ready != nil {
		ready(listener.Addr())
	}
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	alive.Shutdown()
	stop(srv)
	return <-served
}

// stop stops gracefully, and at once where that takes too long, as with a
// client that keeps a stream open.
func stop(srv *grpc.Server) {
	hurry := time.AfterFunc(stopTimeout, srv.Stop)
	defer hurry.Stop()
	srv.GracefulStop()
}
