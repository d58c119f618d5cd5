package dedup

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

type contextKey struct{}

// TestBoundContextIsAContext asks all there is to ask of a context, once before
// somebody has asked for Done and once after.
func TestBoundContextIsAContext(t *testing.T) {
	for name, ask := range map[string]func(context.Context){
		"nobody asked":   func(context.Context) {},
		"asked for Done": func(ctx context.Context) { ctx.Done() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cause := errors.New("cause")
				parent := context.WithValue(t.Context(), contextKey{}, 7)
				check := func(ctx context.Context, err, why error) {
					t.Helper()
					if got := ctx.Err(); got != err {
						t.Errorf("Err: %v, want %v", got, err)
					}
					if got := context.Cause(ctx); got != why {
						t.Errorf("Cause: %v, want %v", got, why)
					}
					if ctx.Value(contextKey{}) != 7 {
						t.Error("the value is lost")
					}
					select {
					case <-ctx.Done():
						if err == nil {
							t.Error("it is done")
						}
					default:
						if err != nil {
							t.Error("it is not done")
						}
					}
				}
				begin := func(parent context.Context) *boundContext {
					c := newBoundContext(parent, time.Now().Add(time.Second))
					ask(c)
					return c
				}

				c := begin(parent)
				check(c, nil, nil)
				c.end(cause)
				c.end(nil)
				check(c, context.Canceled, cause)

				c = begin(parent)
				c.end(nil)
				check(c, context.Canceled, context.Canceled)

				c = begin(parent)
				time.Sleep(time.Second + 1)
				check(c, context.DeadlineExceeded, context.DeadlineExceeded)
				c.end(cause)
				check(c, context.DeadlineExceeded, context.DeadlineExceeded)

				short, cancel := context.WithCancelCause(parent)
				c = begin(short)
				child, stop := context.WithCancel(c)
				defer stop()
				cancel(cause)
				check(c, context.Canceled, cause)
				check(child, context.Canceled, cause)

				short, cancel = context.WithCancelCause(parent)
				c = begin(short)
				cancel(cause)
				check(c, context.Canceled, cause)

				c = begin(parent)
				child, stop = context.WithCancel(c)
				defer stop()
				c.end(cause)
				check(child, context.Canceled, cause)

				soon, stop := context.WithTimeout(parent, time.Millisecond)
				defer stop()
				if d, ok := begin(soon).Deadline(); !ok || time.Until(d) != time.Millisecond {
					t.Errorf("Deadline: %v, %v", d, ok)
				}
				if d, ok := begin(parent).Deadline(); !ok || time.Until(d) != time.Second {
					t.Errorf("Deadline: %v, %v", d, ok)
				}
			})
		})
	}
}

func TestBoundContextOfACancelledCallerHasNoCause(t *testing.T) {
	caller, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("gone"))
	c := newBoundContext(context.WithoutCancel(caller), time.Now().Add(time.Hour))
	defer c.end(nil)
	if err, cause := c.Err(), context.Cause(c); err != nil || cause != nil {
		t.Errorf("%v, because of %v", err, cause)
	}
}
