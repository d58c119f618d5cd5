package gates

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/bench/internal/measure"
	"github.com/retrysafe/retrysafe/dedup/pgstore"
	"github.com/retrysafe/retrysafe/dedup/sqlitestore"
)

const (
	sweepCallers = 16
	// leastRounds are needed before what expired is all swept.
	leastRounds = 3
	// sweepRound is long next to the time for which a store that sweeps is
	// polite and waits for a moment in which nobody claims.
	sweepRound = 2 * time.Second
	// sweepAtOnce makes a store sweep as soon as it is open.
	sweepAtOnce = time.Millisecond
)

// sweeping: what claims wait while a million expired records are deleted. A
// round without and a round with a store that sweeps take turns, for as long as
// there is something to sweep at a round's end.
func sweeping(ctx context.Context, m *Machine) ([]measure.Finding, error) {
	records := 1_000_000
	if m.Plan.Short {
		records /= 5
	}
	sqlite, err := sqliteSweeping(ctx, m, records)
	if err != nil {
		return nil, err
	}
	postgres, err := postgresSweeping(ctx, m, records)
	return append(sqlite, postgres...), err
}

// swept is a storage that is swept in some rounds and not in others.
type swept struct {
	name string
	// begin starts sweeping, and returns what ends it.
	begin func(ctx context.Context, sweep bool) (end func() error, err error)
	// debit does a debit and returns how long its claim took.
	debit func(ctx context.Context) (time.Duration, error)
	// expired counts what is left to sweep.
	expired func(ctx context.Context) (int, error)
}

func (s *swept) compare(ctx context.Context, p measure.Plan) ([]measure.Finding, error) {
	c := make(measure.Comparison)
	p.Rounds, p.Round = min(p.Rounds, 5), max(p.Round, sweepRound)
	began, err := s.expired(ctx)
	if err != nil {
		return nil, err
	}
	left, sweptFor := began, time.Duration(0)
	for round := -1; round < p.Rounds && left > 0; round++ {
		for i := range 2 {
			sweep := (i+round)&1 == 0
			start := time.Now()
			if err := s.round(ctx, c, p.Round, sweep, round); err != nil {
				return nil, err
			}
			if sweep {
				sweptFor += time.Since(start)
			}
		}
		before := left
		if left, err = s.expired(ctx); err != nil {
			return nil, err
		}
		if left == before {
			return nil, fmt.Errorf("%s: nothing was swept", s.name)
		}
	}
	return s.findings(c, float64(began-left)/sweptFor.Seconds(), began)
}

// round runs debits for d. What it finds counts where more than the first
// round's was left to sweep.
func (s *swept) round(ctx context.Context, c measure.Comparison, d time.Duration, sweep bool, round int) error {
	end, err := s.begin(ctx, sweep)
	if err != nil {
		return err
	}
	name := "quiet"
	if sweep {
		name = "sweeping"
	}
	value, err := measure.Latency(name, sweepCallers, 0.99, s.debit).Round(ctx, d)
	if err = errors.Join(err, end()); err != nil {
		return err
	}
	left := 1
	if sweep {
		left, err = s.expired(ctx)
	}
	if round >= 0 && left > 0 {
		c[name] = append(c[name], value)
	}
	return err
}

func (s *swept) findings(c measure.Comparison, rate float64, records int) ([]measure.Finding, error) {
	if n := len(c["sweeping"]); n < leastRounds {
		return nil, fmt.Errorf("%s: everything was swept after %d rounds: measure with shorter rounds", s.name, n)
	}
	of := fmt.Sprintf("%s, %d expired: ", s.name, records)
	return []measure.Finding{
		one(of+"p99 of claims : without sweeping", c.Ratio("sweeping", "quiet"), measure.Times, measure.AtMost(2)),
		told(of+"p99 of claims", c.Of("sweeping"), measure.Nanoseconds),
		told(s.name+": p99 of claims without sweeping", c.Of("quiet"), measure.Nanoseconds),
		told(s.name+": swept beside the claims", measure.Exactly(rate), measure.PerSecond),
	}, nil
}

func sqliteSweeping(ctx context.Context, m *Machine, records int) (_ []measure.Finding, err error) {
	f, err := newFile(ctx)
	if err != nil {
		return nil, err
	}
	defer closing(f.remove, &err)
	if err := f.fill(ctx, records, -time.Hour); err != nil {
		return nil, err
	}
	var store *sqlitestore.Store
	s := &swept{
		name: "SQLite",
		begin: func(ctx context.Context, sweep bool) (func() error, error) {
			var opts []sqlitestore.Option
			if sweep {
				opts = append(opts, sqlitestore.WithSweepInterval(sweepAtOnce))
			}
			var err error
			store, err = f.store(ctx, opts...)
			return func() error { return store.Close() }, err
		},
		debit:   func(ctx context.Context) (time.Duration, error) { return sqliteDebit(ctx, store) },
		expired: f.expired,
	}
	return s.compare(ctx, m.Plan)
}

func postgresSweeping(ctx context.Context, m *Machine, records int) (_ []measure.Finding, err error) {
	b, err := newBank(ctx, m, sweepCallers+1, nil) // one for the sweeper
	if err != nil {
		return nil, err
	}
	defer closing(b.close, &err)
	if err := b.fill(ctx, records, -time.Hour); err != nil {
		return nil, err
	}
	s := &swept{
		name: "PostgreSQL",
		begin: func(_ context.Context, sweep bool) (func() error, error) {
			if !sweep {
				return func() error { return nil }, nil
			}
			sweeper, err := pgstore.New(b.pool, pgstore.WithSweepInterval(sweepAtOnce))
			return sweeper.Close, err
		},
		debit:   func(ctx context.Context) (time.Duration, error) { return b.debitTimed(ctx, b.store, newKey()) },
		expired: b.expired,
	}
	return s.compare(ctx, m.Plan)
}
