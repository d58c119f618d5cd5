package retry

import (
	"context"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/retrysafe/retrysafe/interceptor/internal/wire"
)

// Metadata by which retry layers that know nothing of an owner show.
const (
	envoyHeader = "x-envoy-attempt-count" // counts from 1
	retryHeader = "x-retry-attempt"       // counts retries
	// Version 1 of go-grpc-middleware spells it so.
	middlewareHeader = "x-retry-attempty"
)

// foreignLayer returns the name of the metadata by which a retry layer beside
// the owner shows, or "".
func foreignLayer(md metadata.MD) string {
	switch {
	case len(md[wire.AttemptsHeader]) > 1:
		return wire.AttemptsHeader
	case len(md[wire.OwnerHeader]) > 1:
		return wire.OwnerHeader
	case countsAbove(md[retryHeader], 0):
		return retryHeader
	case countsAbove(md[middlewareHeader], 0):
		return middlewareHeader
	case countsAbove(md[envoyHeader], 1):
		return envoyHeader
	}
	return ""
}

// countsAbove says whether one of the values is a number above n.
func countsAbove(values []string, n int64) bool {
	for _, v := range values {
		if count, err := strconv.ParseInt(v, 10, 64); err == nil && count > n {
			return true
		}
	}
	return false
}

// foreignCounter counts calls that a foreign layer retried.
type foreignCounter struct{ calls metric.Int64Counter }

func (c *config) newForeignCounter() foreignCounter {
	p := c.meterProvider
	if p == nil {
		p = noop.NewMeterProvider()
	}
	calls, err := p.Meter(scopeName).Int64Counter("retrysafe.server.foreign_retries",
		metric.WithUnit("{call}"),
		metric.WithDescription("Calls that show a retry layer beside the owner of the hop."))
	if err != nil {
		c.wrong("WithMeterProvider: %w", err)
	}
	return foreignCounter{calls}
}

func (c foreignCounter) add(ctx context.Context, method, layer string) {
	c.calls.Add(ctx, 1, metric.WithAttributes(
		attribute.String("grpc.method", method),
		attribute.String("retrysafe.layer", layer)))
}

// maxPeers is how many peers are warned of: enough to find the cause, and a
// bound for the memory of a server that many clients call.
const maxPeers = 1024

// peers warns of a foreign layer once for each peer.
type peers struct {
	logger *slog.Logger // nil: no log
	warned sync.Map     // of peerLayer
	count  atomic.Int64
}

type peerLayer struct{ host, layer string }

func (p *peers) warn(ctx context.Context, method, owner, layer string) {
	if p.logger == nil || p.count.Load() >= maxPeers {
		return
	}
	host := hostOf(ctx)
	if _, known := p.warned.LoadOrStore(peerLayer{host, layer}, true); known {
		return
	}
	p.count.Add(1)
	p.logger.LogAttrs(ctx, slog.LevelWarn, "a second layer retries this hop, so attempts multiply: switch one of them off",
		slog.String("peer", host),
		slog.String("grpc.method", method),
		slog.String("owner", owner),
		slog.String("metadata", layer))
}

// hostOf returns the peer without its port, which is new with each connection.
func hostOf(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return ""
	}
	host, _, err := net.SplitHostPort(p.Addr.String())
	if err != nil {
		return p.Addr.String()
	}
	return host
}
