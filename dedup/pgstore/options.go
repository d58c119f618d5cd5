package pgstore

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// The defaults of the options.
const (
	DefaultSweepInterval = time.Minute
	DefaultSweepBatch    = 1000
)

// maxIdentifier is the longest name that PostgreSQL does not cut, in bytes.
const maxIdentifier = 63

// minPartition is the shortest period of a partition.
const minPartition = time.Minute

// Option configures a store, or [Migrate], which needs [WithSchema] and
// [WithPartitions] only. Zero
// always means the default; mistakes are all reported together when the store
// is made, each by its option's name.
type Option func(*config)

type config struct {
	schema        *string
	isolation     pgx.TxIsoLevel
	isolationSet  bool
	sweepInterval time.Duration
	sweepBatch    int
	sweepOff      bool
	partitions    time.Duration
	logger        *slog.Logger
}

// WithSchema names the schema of the store's tables. [Migrate] creates it
// where it does not exist. Default: the first schema of the connection's
// search_path that exists.
func WithSchema(name string) Option {
	return func(c *config) { c.schema = &name }
}

// WithIsolation sets the isolation level of the handlers' transactions, of
// [Store] only. Default: READ COMMITTED.
func WithIsolation(level pgx.TxIsoLevel) Option {
	return func(c *config) { c.isolation, c.isolationSet = level, level != "" }
}

// WithSweepInterval sets how long the store waits after deleting what has
// expired before it looks again. Default: one minute.
func WithSweepInterval(d time.Duration) Option {
	return func(c *config) { c.sweepInterval = d }
}

// WithSweepBatch sets how many expired rows one transaction deletes at most.
// Default: 1,000.
func WithSweepBatch(rows int) Option {
	return func(c *config) { c.sweepBatch = rows }
}

// WithoutSweeping lets this store delete nothing on its own, for processes
// beside one that does. What has expired still counts as gone.
func WithoutSweeping() Option {
	return func(c *config) { c.sweepOff = true }
}

// WithPartitions keeps the outcomes of [Store] in a table of their own, which
// is partitioned by the time of recording, so that what has expired is dropped
// a period at a time and not deleted row by row. It is for many outcomes, needs
// PostgreSQL 14, and goes with READ COMMITTED only. Give it to [Migrate] and to
// every store of the storage; the package's documentation says what it costs.
// At least a minute, in whole seconds. Default: zero, no partitions.
func WithPartitions(period time.Duration) Option {
	return func(c *config) { c.partitions = period }
}

// WithLogger sets where the store logs what no caller is told: a sweep that
// failed, a listener that lost its connection. Default: nowhere.
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
	err := errors.Join(
		c.checkSchema(),
		c.checkIsolation(),
		c.checkPartitions(),
		orDefault("WithSweepInterval", &c.sweepInterval, DefaultSweepInterval),
		orDefault("WithSweepBatch", &c.sweepBatch, DefaultSweepBatch),
	)
	if c.logger == nil {
		c.logger = slog.New(slog.DiscardHandler)
	}
	return c, err
}

func (c *config) checkSchema() error {
	if c.schema == nil {
		return nil
	}
	name := *c.schema
	switch {
	case name == "":
		return errors.New("pgstore: WithSchema: the name is empty")
	case len(name) > maxIdentifier:
		return fmt.Errorf("pgstore: WithSchema: %d bytes are more than PostgreSQL's %d", len(name), maxIdentifier)
	case !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return errors.New("pgstore: WithSchema: the name is not text")
	}
	return nil
}

func (c *config) checkIsolation() error {
	switch c.isolation {
	case "":
		c.isolation = pgx.ReadCommitted
	case pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable:
	default:
		return fmt.Errorf("pgstore: WithIsolation: %q is not one of %q, %q and %q",
			c.isolation, pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable)
	}
	return nil
}

func (c *config) checkPartitions() error {
	var err error
	switch {
	case c.partitions == 0:
		return nil
	case c.partitions < 0:
		err = fmt.Errorf("pgstore: WithPartitions: %v is negative", c.partitions)
	case c.partitions < minPartition:
		err = fmt.Errorf("pgstore: WithPartitions: %v is less than %v", c.partitions, minPartition)
	case c.partitions%time.Second != 0:
		err = fmt.Errorf("pgstore: WithPartitions: %v is not a number of seconds", c.partitions)
	}
	if c.places() {
		err = errors.Join(err, fmt.Errorf("pgstore: WithPartitions: not with WithIsolation(%q): "+
			"without a primary key only %q sees what another has recorded", c.isolation, pgx.ReadCommitted))
	}
	return err
}

// partitioned says whether outcomes are in the partitioned table.
func (c *config) partitioned() bool { return c.partitions > 0 }

// places says whether a claim puts its row into the table, because at the
// transactions' isolation level it would not see another's.
func (c *config) places() bool { return c.isolation != pgx.ReadCommitted }

// orDefault replaces a zero by its default, and refuses what is negative.
func orDefault[T time.Duration | int](option string, v *T, def T) error {
	if *v < 0 {
		return fmt.Errorf("pgstore: %s: %v is negative", option, *v)
	}
	if *v == 0 {
		*v = def
	}
	return nil
}
