package retry

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// once makes the one attempt of a call that is not retried here.
func (c *client) once(ctx context.Context, o *order, w *wiring, opts []grpc.CallOption) error {
	sent := o.equipped(ctx)
	if o.timeout > 0 {
		bounded, cancel := context.WithTimeout(sent, o.timeout)
		defer cancel()
		sent = bounded
	}
	err := w.invoker(sent, o.method, w.req, w.reply, w.cc, opts...)
	t := c.targets.of(w.cc)
	if err != nil {
		return c.failedOnce(ctx, o, t, err)
	}
	c.succeeded(ctx, t)
	c.log.ended(ctx, o.method, t.name, 1, codes.OK)
	return nil
}

// failedOnce says why a failure that others would be retried for was not. A
// failure that no policy would retry, a disabled call's, and that of a caller
// who is gone stay untouched.
func (c *client) failedOnce(ctx context.Context, o *order, t *target, err error) error {
	code := codeOf(err)
	if o.disabled || !o.rules.retries(code) || ctx.Err() != nil {
		c.log.ended(ctx, o.method, t.name, 1, code)
		return err
	}
	ex := &ExhaustedError{Reason: o.reason, Method: o.method, Attempts: 1, key: hidden(o.key), err: err}
	c.exhausted(ctx, o, t, ex)
	return ex
}

// succeeded credits the target for a success.
func (c *client) succeeded(ctx context.Context, t *target) {
	if t.bucket.give() {
		c.telemetry.level(ctx, t)
	}
}

// exhausted tells everyone who asked to know.
func (c *client) exhausted(ctx context.Context, o *order, t *target, ex *ExhaustedError) {
	noteExhausted(ctx, ex)
	c.log.exhausted(ctx, t.name, ex)
	c.telemetry.exhausted(ctx, c.label(o.method), t, ex)
	if c.onExhausted != nil {
		c.onExhausted(ctx, ex)
	}
}
