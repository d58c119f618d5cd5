package sqlitestore

import (
	"log/slog"
	"time"
)

// Option configures a [Store].
type Option func(*config)

type config struct {
	groupRecords  int
	groupDelay    time.Duration
	sweepInterval time.Duration
	logger        *slog.Logger
}

// WithGroupLimit bounds what one commit serves: so many records, and so long
// since the first of them.
func WithGroupLimit(records int, delay time.Duration) Option {
	return func(c *config) { c.groupRecords, c.groupDelay = records, delay }
}

// WithSweepInterval says how often expired records are deleted.
func WithSweepInterval(d time.Duration) Option {
	return func(c *config) { c.sweepInterval = d }
}

// WithLogger sets the logger.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.logger = l } }
