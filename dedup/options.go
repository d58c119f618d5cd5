package dedup

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// The defaults of the options.
const (
	DefaultRetention    = 24 * time.Hour
	DefaultLease        = 30 * time.Second
	DefaultMaxExecution = 30 * time.Second
	DefaultWait         = 10 * time.Second
	DefaultMaxWaiters   = 10_000
	DefaultMaxOutcome   = 4 << 20
	DefaultStoreTimeout = 5 * time.Second
)

// Option configures an [Engine]. Zero always means the default; what is
// negative is an error of [NewEngine] that names the option, and so is a time
// that stores keep, a lease or a retention, of less than a millisecond.
type Option func(*settings)

type settings struct {
	retention    time.Duration
	lease        time.Duration
	maxExecution time.Duration
	wait         time.Duration
	storeTimeout time.Duration
	maxWaiters   int
	maxOutcome   int
	logger       *slog.Logger
	observer     Observer
}

// WithRetention sets how long an outcome is remembered, where the operation
// does not say. Default: 24 h. It should be longer than any client may go on
// retrying: after it a repeat executes.
func WithRetention(d time.Duration) Option {
	return func(s *settings) { s.retention = d }
}

// WithLease sets how long a claim lives without being renewed, where the
// operation does not say. Default: 30 s. The engine renews it at every third
// of it, so that it bounds how long an operation stays blocked after a crash,
// not how long a handler may run. A transactional store has no leases.
func WithLease(d time.Duration) Option {
	return func(s *settings) { s.lease = d }
}

// WithMaxExecution bounds one execution of a handler, where the operation does
// not say. Default: 30 s. The handler does not end with its caller; this ends
// its context instead.
func WithMaxExecution(d time.Duration) Option {
	return func(s *settings) { s.maxExecution = d }
}

// WithWait bounds how long a call waits for another that executes the same
// operation. Default: 10 s. The caller's deadline bounds it too. A store whose
// claims are transactions may wait in its claim, which has the larger of this
// and the store timeout.
func WithWait(d time.Duration) Option {
	return func(s *settings) { s.wait = d }
}

// WithMaxWaiters bounds how many calls wait at once, over all operations of the
// engine. Default: 10,000. Those beyond it are told that the operation is in
// progress without waiting.
func WithMaxWaiters(n int) Option {
	return func(s *settings) { s.maxWaiters = n }
}

// WithMaxOutcome bounds the record of an outcome, in bytes. Default: 4 MiB.
func WithMaxOutcome(bytes int) Option {
	return func(s *settings) { s.maxOutcome = bytes }
}

// WithStoreTimeout bounds each write to the store that does not belong to the
// caller's time: completing, renewing and releasing a claim. Default: 5 s.
func WithStoreTimeout(d time.Duration) Option {
	return func(s *settings) { s.storeTimeout = d }
}

// WithLogger sets where the engine logs. Default: nowhere. It logs what an
// operator should know and no caller is told: an outcome that could not be
// recorded, a lease that was lost, a claim that could not be released. An
// operation is named by its method and a digest of its key, which is keyed
// with a secret that lives as long as the engine.
func WithLogger(l *slog.Logger) Option {
	return func(s *settings) { s.logger = l }
}

// WithObserver sets what is told of operations and store calls, for metrics.
// Default: nothing.
func WithObserver(o Observer) Option {
	return func(s *settings) { s.observer = o }
}

func newSettings(opts []Option) (settings, error) {
	var s settings
	for _, opt := range opts {
		if opt != nil {
			opt(&s)
		}
	}
	err := errors.Join(
		orKept("WithRetention", &s.retention, DefaultRetention),
		orKept("WithLease", &s.lease, DefaultLease),
		orDefault("WithMaxExecution", &s.maxExecution, DefaultMaxExecution),
		orDefault("WithWait", &s.wait, DefaultWait),
		orDefault("WithMaxWaiters", &s.maxWaiters, DefaultMaxWaiters),
		orDefault("WithMaxOutcome", &s.maxOutcome, DefaultMaxOutcome),
		orDefault("WithStoreTimeout", &s.storeTimeout, DefaultStoreTimeout),
	)
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	return s, err
}

// orDefault replaces a zero by its default, and refuses what is negative.
func orDefault[T time.Duration | int | int64](option string, v *T, def T) error {
	if *v < 0 {
		return fmt.Errorf("dedup: %s: %v is negative", option, *v)
	}
	if *v == 0 {
		*v = def
	}
	return nil
}

// orKept is orDefault for a time that a store keeps. No store keeps less than a
// millisecond, so that every call would fail.
func orKept(option string, d *time.Duration, def time.Duration) error {
	if 0 < *d && *d < time.Millisecond {
		return fmt.Errorf("dedup: %s: %v is less than 1ms", option, *d)
	}
	return orDefault(option, d, def)
}
