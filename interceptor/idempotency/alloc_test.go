package idempotency_test

import (
	"context"
	"strconv"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/interceptor/idempotency"
)

// What the server side may allocate for a call, over the bare handler.
const (
	maxNewAllocs    = 12
	maxReplayAllocs = 18
)

// discardStream is a transport stream that costs nothing.
type discardStream struct{}

func (discardStream) Method() string               { return place }
func (discardStream) SetHeader(metadata.MD) error  { return nil }
func (discardStream) SendHeader(metadata.MD) error { return nil }
func (discardStream) SetTrailer(metadata.MD) error { return nil }

// calls returns n contexts of incoming calls with a key each, all different.
func calls(n int, prefix string) []context.Context {
	ctxs := make([]context.Context, n)
	for i := range ctxs {
		ctx := metadata.NewIncomingContext(context.Background(), metadata.Pairs(idempotency.MetadataKey, prefix+strconv.Itoa(i)))
		ctxs[i] = grpc.NewContextWithServerTransportStream(ctx, discardStream{})
	}
	return ctxs
}

func TestAllocationsStayWithinTheirBounds(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes sync.Pool drop what it is given")
	}
	s := newServer(t, dedup.NewMemory())
	defer s.Close()
	resp := &errdetails.ResourceInfo{ResourceName: "entries/1", Description: "done"}
	h := func(context.Context, any) (any, error) { return resp, nil }
	info := &grpc.UnaryServerInfo{FullMethod: place}
	req := request("a")
	const runs = 1000
	ctxs := calls(runs+1, "order-")
	measure := func() float64 {
		i := 0
		return testing.AllocsPerRun(runs, func() {
			if _, err := s.Intercept(ctxs[i], req, info, h); err != nil {
				t.Fatal(err)
			}
			i++
		})
	}
	if n := measure(); n > maxNewAllocs {
		t.Errorf("a new key: %v allocations, want at most %d", n, maxNewAllocs)
	}
	if n := measure(); n > maxReplayAllocs {
		t.Errorf("a replay: %v allocations, want at most %d", n, maxReplayAllocs)
	}
	s2 := newServer(t, dedup.NewMemory(), idempotency.WithMethodKey(place, idempotency.KeyNone))
	defer s2.Close()
	if n := testing.AllocsPerRun(runs, func() { _, _ = s2.Intercept(ctxs[0], req, info, h) }); n != 0 {
		t.Errorf("a method that is not deduplicated: %v allocations", n)
	}
}

func BenchmarkServer(b *testing.B) {
	s := newServer(b, dedup.NewMemory())
	defer s.Close()
	resp := &errdetails.ResourceInfo{ResourceName: "entries/1", Description: "done"}
	h := func(context.Context, any) (any, error) { return resp, nil }
	info := &grpc.UnaryServerInfo{FullMethod: place}
	req := request("a")
	b.Run("new", func(b *testing.B) {
		ctxs := calls(b.N, "new-"+strconv.Itoa(b.N)+"-")
		b.ReportAllocs()
		b.ResetTimer()
		for i := range b.N {
			if _, err := s.Intercept(ctxs[i], req, info, h); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("replay", func(b *testing.B) {
		ctx := calls(1, "replay-")[0]
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.Intercept(ctx, req, info, h); err != nil {
				b.Fatal(err)
			}
		}
	})
}
