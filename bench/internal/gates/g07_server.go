package gates

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/retrysafe/retrysafe/bench/internal/measure"
	"github.com/retrysafe/retrysafe/dedup"
	ledgerv1 "github.com/retrysafe/retrysafe/gen/ledger/v1"
	"github.com/retrysafe/retrysafe/interceptor/idempotency"
)

// discard is a transport stream that costs nothing.
type discard struct{}

func (discard) Method() string               { return method }
func (discard) SetHeader(metadata.MD) error  { return nil }
func (discard) SendHeader(metadata.MD) error { return nil }
func (discard) SetTrailer(metadata.MD) error { return nil }

// incoming returns the context of a call that carries a new key.
func incoming(ctx context.Context) context.Context {
	ctx = metadata.NewIncomingContext(ctx, metadata.Pairs(idempotency.MetadataKey, idempotency.NewKey()))
	return grpc.NewContextWithServerTransportStream(ctx, discard{})
}

// server: what deduplication adds to a handler, with outcomes in memory. Making
// the incoming context is not the server's doing, so it is measured apart.
func server(ctx context.Context, m *Machine) ([]measure.Finding, error) {
	store := dedup.NewMemory(dedup.WithMaxKeys(1<<30), dedup.WithMaxBytes(1<<40))
	s, err := idempotency.NewServer(store)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	request, info := debitRequest(), &grpc.UnaryServerInfo{FullMethod: method}
	response := &ledgerv1.DebitResponse{}
	handler := func(context.Context, any) (any, error) { return response, nil }
	call := func(ctx context.Context) error {
		_, err := s.Intercept(ctx, request, info, handler)
		return err
	}
	repeated := incoming(ctx)
	if err := call(repeated); err != nil {
		return nil, err
	}
	replay := func() error { return call(repeated) }
	fresh := func() error { return call(incoming(ctx)) }
	arrive := func() error { incoming(ctx); return nil }

	arriving, err := measure.Allocs(arrive)
	if err != nil {
		return nil, err
	}
	executing, err := measure.Allocs(fresh)
	if err != nil {
		return nil, err
	}
	replaying, err := measure.Allocs(replay)
	if err != nil {
		return nil, err
	}
	c, err := m.Plan.Cut(someGarbage).Compare(ctx, measure.Loop("arrive", arrive), measure.Loop("new", fresh), measure.Loop("replay", replay))
	c.Derive("new alone", "new", "arrive", func(all, arrive float64) float64 { return all - arrive })
	return []measure.Finding{
		counted("new key: allocations over the bare handler", executing-arriving, measure.AtMost(12)),
		counted("replay: allocations over the bare handler", replaying, measure.AtMost(18)),
		told("new key", c.Of("new alone"), measure.Nanoseconds),
		told("replay", c.Of("replay"), measure.Nanoseconds),
	}, err
}
