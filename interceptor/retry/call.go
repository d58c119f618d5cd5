package retry

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/retrysafe/retrysafe/interceptor/internal/key"
)

// call is one call of a Safe or Keyed method on its way through its attempts.
// Calls are pooled, so that one which succeeds at once does not allocate.
type call struct {
	client *client
	keys   *key.Maker // kept from call to call

	opts          []grpc.CallOption // the caller's, trailerOption and ownedOption
	trailer       metadata.MD       // of the last attempt
	trailerOption grpc.CallOption   // fills trailer

	order  order
	wiring wiring
	conn   grpc.ClientConnInterface // where the call has failed over to; nil: wiring's
	target *target
	next   int // the next of the client's stations

	caller context.Context // ends with the caller or its deadline
	base   context.Context // what attempts derive from: with metadata and span
	limit  limit

	attempts int           // made, at all targets
	here     int           // made at the present target
	shortest time.Duration // what the quickest attempt took; kept where there is a limit
	backoff  backoff
	waited   time.Duration
	observer observer
}

func emptyCall(c *client) *call {
	x := &call{client: c, keys: new(key.Maker)}
	x.trailerOption = grpc.Trailer(&x.trailer)
	return x
}

func (c *client) newCall(o *order, w *wiring, opts []grpc.CallOption) *call {
	x := c.pooled(opts)
	x.order, x.wiring, x.target = *o, *w, c.targets.of(w.cc)
	return x
}

// pooled returns a call with nothing but its options.
func (c *client) pooled(opts []grpc.CallOption) *call {
	x := c.calls.Get().(*call)
	x.opts = append(append(x.opts[:0], opts...), x.trailerOption, ownedOption{})
	return x
}

// recycle returns a call to the pool of which nothing but the options was
// used. What made an attempt fail may still hold those, so a call that failed
// once does not come here.
func (x *call) recycle() {
	clear(x.opts)
	x.trailer = nil
	x.client.calls.Put(x)
}

// recycleAll is recycle for a call of which anything may have been used.
func (x *call) recycleAll() {
	*x = call{client: x.client, keys: x.keys, opts: x.opts, trailerOption: x.trailerOption}
	x.recycle()
}

// run makes a call with everything that can be said of one.
func (x *call) run(ctx context.Context) error {
	if x.order.timeout > 0 {
		bounded, cancel := context.WithTimeout(ctx, x.order.timeout)
		defer cancel()
		ctx = bounded
	}
	x.caller, x.limit = ctx, limitOf(ctx, x.order.rules.maxElapsed)
	x.base = x.order.equipped(ctx)
	if x.limit.reason == ReasonMaxElapsed {
		bounded, cancel := context.WithDeadline(x.base, x.limit.at)
		defer cancel()
		x.base = bounded
	}
	if x.client.planner.observed {
		x.observer.start(x)
	}
	err := x.attempt()
	if err != nil {
		err = x.follow(err)
	} else {
		x.client.succeeded(x.caller, x.target)
	}
	x.observer.end(x, err)
	if err == nil && x.attempts == 1 {
		x.recycleAll()
	}
	return err
}

// follow makes what attempts there are after the first, which failed with err,
// and returns what the caller gets.
func (x *call) follow(err error) error {
	for {
		v := x.judge(err)
		if v.final != nil {
			return v.final
		}
		if err := x.wait(v, err); err != nil {
			return err
		}
		if err = x.attempt(); err == nil {
			x.client.succeeded(x.caller, x.target)
			return nil
		}
	}
}
