package demo

import (
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/interceptor/retry"
	"github.com/retrysafe/retrysafe/ledgerdemo/database"
	"github.com/retrysafe/retrysafe/ledgerdemo/faults"
)

// Config says what to run.
type Config struct {
	// Operations is how many debits are asked for.
	Operations int
	// Clients is how many ask at once, each on a connection of its own.
	Clients int
	// Store is where outcomes are recorded, a server of PostgreSQL or Redis.
	// Nowhere means an SQLite file in a temporary folder.
	Store database.URL
	// Ledger is where the ledger is while outcomes are in Redis: a server of
	// PostgreSQL, or nowhere for an SQLite file in a temporary folder.
	Ledger database.URL
	// Replicas is how many servers share the work. 0 means one.
	Replicas int
	// Kills is how often a server is killed while they do.
	Kills int
	// Terminations is how often a session of the database's server is
	// terminated, which PostgreSQL alone has.
	Terminations int
	// WithoutRetries gives each debit one attempt.
	WithoutRetries bool
	// WithoutDedup takes the idempotency interceptor out of the server.
	WithoutDedup bool
	// Seed chooses amounts, accounts and faults.
	Seed uint64
	// Server is the command line that runs this program's "serve", as
	// []string{"/path/to/ledgerdemo", "serve"}.
	Server []string
	// Keep leaves the folder with the database and the server's log.
	Keep bool
	// Progress is told how it goes. Nil: nobody is.
	Progress Progress
}

// Progress is told how a run goes. Its methods are called one at a time.
type Progress interface {
	// Say tells of an event.
	Say(event string)
	// Step tells how many of all debits are done.
	Step(done, of int)
}

type silent struct{}

func (silent) Say(string)    {}
func (silent) Step(int, int) {}

// Validate returns everything that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	if c.Operations < 1 || c.Operations > maxOperations {
		errs = append(errs, fmt.Errorf("operations: %d is not between 1 and %d", c.Operations, maxOperations))
	}
	if c.Clients < 1 || c.Clients > maxClients {
		errs = append(errs, fmt.Errorf("clients: %d is not between 1 and %d", c.Clients, maxClients))
	}
	if c.Replicas < 0 || c.Replicas > maxReplicas {
		errs = append(errs, fmt.Errorf("replicas: %d is not between 0 and %d", c.Replicas, maxReplicas))
	}
	errs = append(errs, c.validatePlaces()...)
	if c.Kills < 0 || c.Kills >= max(c.Operations, 1) {
		errs = append(errs, fmt.Errorf("kills: %d is not between 0 and one less than the operations", c.Kills))
	}
	if len(c.Server) == 0 {
		errs = append(errs, errors.New("server: the command line is empty"))
	}
	return errors.Join(errs...)
}

func (c Config) validatePlaces() []error {
	var errs []error
	for name, at := range map[string]database.URL{"store": c.Store, "ledger": c.Ledger} {
		if at.Kind == database.SQLite {
			errs = append(errs, fmt.Errorf("%s: an SQLite file is made anew, in a temporary folder; name none", name))
		}
	}
	switch {
	case c.Ledger.Kind == database.Redis:
		errs = append(errs, errors.New("ledger: a ledger is not kept in Redis"))
	case c.Store.Kind != database.Redis && !c.Ledger.IsZero():
		errs = append(errs, errors.New("ledger: it is in the store, unless that is Redis"))
	}
	if c.Terminations < 0 || c.Terminations >= max(c.Operations, 1) {
		errs = append(errs, fmt.Errorf("terminations: %d is not between 0 and one less than the operations", c.Terminations))
	}
	if c.Terminations > 0 && !c.OnPostgreSQL() {
		errs = append(errs, errors.New("terminations: there is nothing to terminate without PostgreSQL"))
	}
	return errs
}

// OnPostgreSQL reports whether the ledger is in PostgreSQL.
func (c Config) OnPostgreSQL() bool {
	return c.Store.Kind == database.PostgreSQL || c.Ledger.Kind == database.PostgreSQL
}

// oneAtATime reports whether the store promises no more than one execution at
// a time, because effect and outcome are not one transaction.
func (c Config) oneAtATime() bool { return c.Store.Kind == database.Redis && !c.WithoutDedup }

const (
	maxOperations = 1_000_000
	maxClients    = 1_000
	maxReplicas   = 16

	currencyCode = "EUR"
	accounts     = 16
	maxAmount    = 500 // minor units of one debit

	// attemptTimeout is how long a client waits for one attempt, and slowBy is
	// by how much an attempt that is to time out is slowed.
	attemptTimeout = 400 * time.Millisecond
	slowBy         = 600 * time.Millisecond
	// patience bounds one debit with all its attempts. It is long, because a
	// customer who gives up leaves a debit of which nobody knows.
	patience = time.Minute
	// pause is how long a client rests between two debits at most, so that an
	// outage does not use up all debits of a client that does not retry.
	pause = 20 * time.Millisecond
	// lease is how long an operation stays blocked after its server was killed,
	// where outcomes are in Redis. An executor that lives renews it three times
	// as often.
	lease = 3 * time.Second
	// holdRecords and holdBy widen the gap between an effect and its record
	// where there is one, so that a kill finds it.
	holdRecords = 0.1
	holdBy      = 200 * time.Millisecond
	// cutEvery is after how many debits a connection is cut.
	cutEvery = 40
)

// policy retries within a customer's patience. The library's token budget is
// off: it protects a server from a fleet of clients, and this is a handful of
// which each waits for its one customer.
func policy() []retry.Option {
	return []retry.Option{
		retry.WithPolicy(retry.Policy{
			MaxAttempts:       1000,
			Backoff:           retry.Backoff{Base: 25 * time.Millisecond, Cap: 500 * time.Millisecond},
			PerAttemptTimeout: attemptTimeout,
			MaxElapsed:        patience,
		}),
		retry.WithoutBudget(),
	}
}

// plan is what a server breaks. Each that is started breaks other calls.
func (c Config) plan(generation int) faults.Plan {
	p := faults.Plan{
		LoseResponses: 0.05,
		SlowAttempts:  0.01,
		SlowBy:        slowBy,
		BurstEvery:    100,
		BurstLength:   10,
		Seed:          c.Seed + uint64(generation),
	}
	if c.oneAtATime() {
		p.HoldRecords, p.HoldBy = holdRecords, holdBy
	}
	return p
}

// opening is each account's balance before the first debit: enough for all
// debits on one account, each made twice.
func (c Config) opening() int64 { return 2 * maxAmount * int64(c.Operations) }

func (c Config) progress() Progress {
	if c.Progress == nil {
		return silent{}
	}
	return c.Progress
}
