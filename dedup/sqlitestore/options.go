package sqlitestore

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"
)

// Option configures a [Store]. What is wrong with the options is reported by
// [Open] and [New], all of it at once.
type Option func(*config)

type config struct {
	groupRecords  int
	groupDelay    time.Duration
	readers       int
	sweepInterval time.Duration
	logger        *slog.Logger

	now   func() time.Time   // the store's clock
	probe func(point string) // told of the points at which a crash is tested
}

// WithGroupLimit bounds what one commit serves: at most so many records, and
// nobody is let in later than delay after the transaction began. The delay is
// what the first of a group may have to wait beyond the executions that have
// begun. Zero means the default: 128 records, 10 ms. One record means a commit
// for each.
func WithGroupLimit(records int, delay time.Duration) Option {
	return func(c *config) { c.groupRecords, c.groupDelay = records, delay }
}

// WithReaders bounds how many connections [Open] keeps for reading, beside the
// one that writes. Zero means the default: GOMAXPROCS, and at least 4. [New]
// takes the pool's own limit instead, and ignores it.
func WithReaders(n int) Option {
	return func(c *config) { c.readers = n }
}

// WithSweepInterval says how often expired records are looked for and deleted.
// Zero means the default: a minute.
func WithSweepInterval(d time.Duration) Option {
	return func(c *config) { c.sweepInterval = d }
}

// WithLogger sets where the store tells of what no caller is told: failed
// commits, a writer that had to be opened again, failed sweeps. It never logs
// keys or records. Default: nowhere.
func WithLogger(l *slog.Logger) Option {
	return func(c *config) { c.logger = l }
}

func newConfig(opts []Option) (config, error) {
	var c config
	for _, opt := range opts {
		if opt != nil {
			opt(&c)
		}
	}
	if err := c.validate(); err != nil {
		return config{}, err
	}
	c.groupRecords = cmp.Or(c.groupRecords, 128)
	c.groupDelay = cmp.Or(c.groupDelay, 10*time.Millisecond)
	c.readers = cmp.Or(c.readers, max(4, runtime.GOMAXPROCS(0)))
	c.sweepInterval = cmp.Or(c.sweepInterval, time.Minute)
	if c.logger == nil {
		c.logger = slog.New(slog.DiscardHandler)
	}
	if c.now == nil {
		c.now = time.Now
	}
	if c.probe == nil {
		c.probe = func(string) {}
	}
	return c, nil
}

func (c *config) validate() error {
	var errs []error
	if c.groupRecords < 0 {
		errs = append(errs, fmt.Errorf("sqlitestore: WithGroupLimit: %d records is negative", c.groupRecords))
	}
	if c.groupDelay < 0 {
		errs = append(errs, fmt.Errorf("sqlitestore: WithGroupLimit: a delay of %v is negative", c.groupDelay))
	}
	if c.readers < 0 {
		errs = append(errs, fmt.Errorf("sqlitestore: WithReaders: %d is negative", c.readers))
	}
	if c.sweepInterval < 0 {
		errs = append(errs, fmt.Errorf("sqlitestore: WithSweepInterval: %v is negative", c.sweepInterval))
	}
	return errors.Join(errs...)
}
