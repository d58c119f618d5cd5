package gates

import (
	"context"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/retrysafe/retrysafe/bench/internal/measure"
	ledgerv1 "github.com/retrysafe/retrysafe/gen/ledger/v1"
	"github.com/retrysafe/retrysafe/interceptor/retry"
)

// ledger is a server whose debits do what debit does.
type ledger struct {
	ledgerv1.UnimplementedLedgerServiceServer
	debit func() (*ledgerv1.DebitResponse, error)
}

func (l *ledger) Debit(context.Context, *ledgerv1.DebitRequest) (*ledgerv1.DebitResponse, error) {
	return l.debit()
}

// serve serves the ledger at a loopback address until stop.
func serve(debit func() (*ledgerv1.DebitResponse, error)) (address string, stop func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	s := grpc.NewServer()
	ledgerv1.RegisterLedgerServiceServer(s, &ledger{debit: debit})
	served := make(chan struct{})
	go func() { defer close(served); _ = s.Serve(listener) }() // the listener's end is the caller's doing
	return listener.Addr().String(), func() { s.Stop(); <-served }, nil
}

func dial(address string, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	return grpc.NewClient(address, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
}

// overTCP: what the client adds to a real call, counted on both of its sides.
func overTCP(ctx context.Context, m *Machine) ([]measure.Finding, error) {
	address, stop, err := serve(func() (*ledgerv1.DebitResponse, error) { return new(ledgerv1.DebitResponse), nil })
	if err != nil {
		return nil, err
	}
	defer stop()
	var ways []measure.Way
	perCall := make(map[string]float64)
	for _, way := range []struct {
		name   string
		safety retry.Safety // 0: no interceptor
	}{{"bare", 0}, {"unlisted", retry.SafetyUnsafe}, {"safe", retry.SafetySafe}, {"keyed", retry.SafetyKeyed}} {
		var opts []grpc.DialOption
		if way.safety != 0 {
			if opts, err = retry.DialOptions(defaultPolicy, retry.WithMethodSafety("*", way.safety)); err != nil {
				return nil, err
			}
		}
		conn, err := dial(address, opts...)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		client, request := ledgerv1.NewLedgerServiceClient(conn), debitRequest()
		call := func() error { _, err := client.Debit(ctx, request); return err }
		if perCall[way.name], err = measure.Allocs(call); err != nil {
			return nil, err
		}
		ways = append(ways, measure.Loop(way.name, call))
	}
	c, err := m.Plan.Compare(ctx, ways...)
	over := func(name string) float64 { return perCall[name] - perCall["bare"] }
	return []measure.Finding{
		counted("Keyed: allocations over the bare call", over("keyed"), measure.AtMost(13)),
		counted("Safe: allocations over the bare call", over("safe"), measure.AtMost(1)),
		counted("unlisted: allocations over the bare call", over("unlisted"), measure.AtMost(1)),
		told("Keyed : bare, in time", c.Ratio("keyed", "bare"), measure.Times),
		told("bare: a call", c.Of("bare"), measure.Nanoseconds),
	}, err
}
