package deadletter

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ReplayOption configures [Replay].
type ReplayOption func(*replay) error

type replay struct {
	window time.Duration // 0: nine tenths of the method's retention
	open   func(context.Context, *Letter) error
	safe   bool
}

func (r *replay) apply(opts []ReplayOption) error {
	var errs []error
	for i, opt := range opts {
		if opt == nil {
			errs = append(errs, fmt.Errorf("deadletter: Replay: option %d is nil", i))
			continue
		}
		errs = append(errs, opt(r))
	}
	return errors.Join(errs...)
}

// WithWindow is the age from which on a letter with a key is too old to be
// sent, counted from its first attempt by the client's clock; no attempt of a
// replay is begun after it. Keep it below the time for which the server
// remembers outcomes. Default: nine tenths of the
// retention in the method's retrysafe.v1.policy, and of [DefaultRetention]
// where it has none.
func WithWindow(d time.Duration) ReplayOption {
	return func(r *replay) error {
		if d <= 0 {
			return fmt.Errorf("deadletter: WithWindow: %v is not positive", d)
		}
		r.window = d
		return nil
	}
}

// WithOpen undoes what [WithSeal] did to a letter, before it is sent. What it
// changes is not kept.
func WithOpen(open func(context.Context, *Letter) error) ReplayOption {
	return func(r *replay) error {
		if open == nil {
			return errors.New("deadletter: WithOpen: the function is nil")
		}
		r.open = open
		return nil
	}
}

// WithSafe states that executing the letter's method twice does no harm, as
// retry.WithMethodSafety or retry.CallSafety stated it for the call: then a
// letter without a key is sent. Default: only where the method's
// idempotency_level says so.
func WithSafe() ReplayOption {
	return func(r *replay) error {
		r.safe = true
		return nil
	}
}
