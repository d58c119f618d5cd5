package retry

import (
	"context"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/retrysafe/retrysafe/interceptor/internal/wire"
)

// attempt sends the call once.
func (x *call) attempt() error {
	if x.attempts > 0 {
		reset(x.wiring.reply)
		forget(x.opts)
	}
	ctx := x.attemptContext()
	x.attempts++
	x.here++
	if !x.limit.exists() && !x.observer.on {
		return x.send(ctx)
	}
	start := time.Now()
	err := x.send(ctx)
	took := time.Since(start)
	if x.attempts == 1 || took < x.shortest {
		x.shortest = took
	}
	x.observer.attempted(x, err, took)
	return err
}

// attemptContext returns the context of the next attempt, with the count of
// those before it.
func (x *call) attemptContext() context.Context {
	if x.attempts == 0 {
		return x.base
	}
	before := strconv.Itoa(x.attempts)
	if x.order.owner != "" {
		return metadata.AppendToOutgoingContext(x.base, wire.AttemptsHeader, before)
	}
	return metadata.AppendToOutgoingContext(withoutHop(x.base), wire.OwnerHeader, x.client.owner, wire.AttemptsHeader, before)
}

// send sends an attempt, bounded by its own timeout.
func (x *call) send(ctx context.Context) error {
	if timeout := x.order.rules.perAttemptTimeout; timeout > 0 {
		bounded, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		ctx = bounded
	}
	w := &x.wiring
	if x.conn != nil {
		return x.conn.Invoke(ctx, x.order.method, w.req, w.reply, x.sentOptions()...)
	}
	return w.invoker(ctx, x.order.method, w.req, w.reply, w.cc, x.sentOptions()...)
}

// sentOptions returns the options of an attempt. Who appends to them gets a
// copy.
func (x *call) sentOptions() []grpc.CallOption { return slices.Clip(x.opts) }
