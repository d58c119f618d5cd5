package gates

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/bench/internal/measure"
)

// growth: what a claim costs among a hundred times as many records, with keys
// that rise with time.
func growth(ctx context.Context, m *Machine) ([]measure.Finding, error) {
	few, many := 100_000, 10_000_000
	if m.Plan.Short {
		few, many = few/10, many/10
	}
	sqlite, err := sqliteGrowth(ctx, m, few, many)
	if err != nil {
		return nil, err
	}
	postgres, err := postgresGrowth(ctx, m, few, many)
	return append(sqlite, postgres...), err
}

type debitFunc func(context.Context) (time.Duration, error)

func compareGrowth(ctx context.Context, p measure.Plan, name string, few, many int, fewDebit, manyDebit debitFunc) ([]measure.Finding, error) {
	c, err := p.Compare(ctx,
		measure.Latency("few", 1, 0.5, fewDebit),
		measure.Latency("many", 1, 0.5, manyDebit))
	return []measure.Finding{
		one(fmt.Sprintf("%s: p50 of claims at %d records : at %d", name, many, few), c.Ratio("many", "few"), measure.Times, measure.AtMost(1.5)),
		told(fmt.Sprintf("%s: p50 of claims at %d records", name, many), c.Of("many"), measure.Nanoseconds),
	}, err
}

func sqliteGrowth(ctx context.Context, m *Machine, few, many int) (_ []measure.Finding, err error) {
	var debits []debitFunc
	for _, records := range []int{few, many} {
		f, err := newFile(ctx)
		if err != nil {
			return nil, err
		}
		defer f.remove()
		if err := f.fill(ctx, records, 24*time.Hour); err != nil {
			return nil, err
		}
		store, err := f.store(ctx)
		if err != nil {
			return nil, err
		}
		defer store.Close()
		debits = append(debits, func(ctx context.Context) (time.Duration, error) { return sqliteDebit(ctx, store) })
	}
	return compareGrowth(ctx, m.Plan, "SQLite", few, many, debits[0], debits[1])
}

func postgresGrowth(ctx context.Context, m *Machine, few, many int) (_ []measure.Finding, err error) {
	var debits []debitFunc
	for _, records := range []int{few, many} {
		b, bankErr := newBank(ctx, m, 1, nil)
		if bankErr != nil {
			return nil, bankErr
		}
		defer func() { err = errors.Join(err, b.close()) }()
		if err := b.fill(ctx, records, 24*time.Hour); err != nil {
			return nil, err
		}
		debits = append(debits, func(ctx context.Context) (time.Duration, error) { return b.debitTimed(ctx, b.store, newKey()) })
	}
	return compareGrowth(ctx, m.Plan, "PostgreSQL", few, many, debits[0], debits[1])
}
