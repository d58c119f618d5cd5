package retry

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// call is one call of a Safe or Keyed method on its way through its attempts.
// Calls are pooled, so that one which succeeds at once does not allocate.
type call struct {
	client *client
	order  order

	req, reply any
	cc         *grpc.ClientConn
	invoker    grpc.UnaryInvoker
	conn       grpc.ClientConnInterface // where the call has failed over to; nil: cc
	target     *target
	next       int // the next of the client's stations

	opts          []grpc.CallOption // the caller's, trailerOption and ownedOption
	trailer       metadata.MD       // of the last attempt
	trailerOption grpc.CallOption   // fills trailer

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

func newCall(c *client) *call {
	x := &call{client: c}
	x.trailerOption = grpc.Trailer(&x.trailer)
	return x
}

// run makes the attempts and returns what the caller gets.
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
	if x.client.observed() {
		x.observer.start(x)
	}
	err := x.loop()
	x.observer.end(x, err)
	if err == nil && x.attempts == 1 {
		x.recycle()
	}
	return err
}

// loop alternates attempts and waits.
func (x *call) loop() error {
	for {
		err := x.attempt()
		if err == nil {
			x.client.succeeded(x.caller, x.target)
			return nil
		}
		v := x.judge(err)
		if v.final != nil {
			return v.final
		}
		if err := x.wait(v, err); err != nil {
			return err
		}
	}
}

// recycle returns x to the pool. Only a call that succeeded at once comes
// here: what made an earlier attempt fail may still hold its options.
func (x *call) recycle() {
	c, opts, trailerOption := x.client, x.opts, x.trailerOption
	clear(opts)
	*x = call{client: c, opts: opts[:0], trailerOption: trailerOption}
	c.calls.Put(x)
}
