package deadletter

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// DefaultPutTimeout is how long the interceptor waits for the queue.
const DefaultPutTimeout = time.Second

// Option configures [UnaryClientInterceptor].
type Option func(*settings) error

type settings struct {
	putTimeout time.Duration
	seal       func(context.Context, *Letter) error
}

func newSettings(opts []Option) (settings, error) {
	s := settings{putTimeout: DefaultPutTimeout}
	var errs []error
	for i, opt := range opts {
		if opt == nil {
			errs = append(errs, fmt.Errorf("deadletter: option %d is nil", i))
			continue
		}
		errs = append(errs, opt(&s))
	}
	return s, errors.Join(errs...)
}

// WithPutTimeout bounds how long an exhausted call waits for the queue to take
// its letter, beyond the caller's deadline if need be. Default
// [DefaultPutTimeout].
func WithPutTimeout(d time.Duration) Option {
	return func(s *settings) error {
		if d <= 0 {
			return fmt.Errorf("deadletter: WithPutTimeout: %v is not positive", d)
		}
		s.putTimeout = d
		return nil
	}
}

// WithSeal has seal change each letter before it is kept: to redact its
// request, or to encrypt request and key. It may be called by many calls at
// once. Where it fails the letter is not kept.
func WithSeal(seal func(context.Context, *Letter) error) Option {
	return func(s *settings) error {
		if seal == nil {
			return errors.New("deadletter: WithSeal: the function is nil")
		}
		s.seal = seal
		return nil
	}
}
