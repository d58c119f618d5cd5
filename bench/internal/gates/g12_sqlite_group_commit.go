package gates

import (
	"context"
	"errors"
	"time"

	"github.com/retrysafe/retrysafe/bench/internal/measure"
	"github.com/retrysafe/retrysafe/dedup/sqlitestore"
)

// sqliteGroupCommit: what many callers gain from one commit that serves all
// that wait, and what a lone caller pays for the store.
func sqliteGroupCommit(ctx context.Context, m *Machine) ([]measure.Finding, error) {
	many, err := sqliteMany(ctx, m)
	if err != nil {
		return nil, err
	}
	alone, err := sqliteAlone(ctx, m)
	return append(many, alone...), err
}

func sqliteMany(ctx context.Context, m *Machine) (_ []measure.Finding, err error) {
	const callers = 64
	group, closeGroup, err := newSQLiteStore(ctx)
	if err != nil {
		return nil, err
	}
	defer closing(closeGroup, &err)
	each, closeEach, err := newSQLiteStore(ctx, sqlitestore.WithGroupLimit(1, time.Second))
	if err != nil {
		return nil, err
	}
	defer closing(closeEach, &err)
	debits := func(store *sqlitestore.Store) func(context.Context) error {
		return func(ctx context.Context) error { _, err := sqliteDebit(ctx, store); return err }
	}
	c, err := m.Plan.Compare(ctx,
		measure.Throughput("group", callers, debits(group)),
		measure.Throughput("each", callers, debits(each)))
	stats := group.Stats()
	return []measure.Finding{
		one("64 callers: group commit : a commit for each", c.Ratio("group", "each"), measure.Times, measure.AtLeast(8)),
		told("64 callers: group commit", c.Of("group"), measure.PerSecond),
		told("64 callers: a commit for each", c.Of("each"), measure.PerSecond),
		told("64 callers: outcomes for each commit", measure.Exactly(float64(stats.Recorded)/float64(stats.Commits)), measure.Count),
	}, err
}

func newSQLiteStore(ctx context.Context, opts ...sqlitestore.Option) (*sqlitestore.Store, func() error, error) {
	f, err := newFile(ctx)
	if err != nil {
		return nil, nil, err
	}
	store, err := f.store(ctx, opts...)
	if err != nil {
		return nil, nil, errors.Join(err, f.remove())
	}
	return store, func() error { return errors.Join(store.Close(), f.remove()) }, nil
}

func sqliteAlone(ctx context.Context, m *Machine) (_ []measure.Finding, err error) {
	store, closeStore, err := newSQLiteStore(ctx)
	if err != nil {
		return nil, err
	}
	defer closing(closeStore, &err)
	f, err := newFile(ctx)
	if err != nil {
		return nil, err
	}
	defer closing(f.remove, &err)
	db, err := f.direct()
	if err != nil {
		return nil, err
	}
	defer closing(db.Close, &err)
	c, err := m.Plan.Compare(ctx,
		measure.Throughput("store", 1, func(ctx context.Context) error { _, err := sqliteDebit(ctx, store); return err }),
		measure.Throughput("direct", 1, func(ctx context.Context) error { return sqliteDirectly(ctx, db) }))
	return []measure.Finding{
		one("a lone caller: the store : the same by hand", c.Ratio("store", "direct"), measure.Times, measure.AtLeast(0.95)),
		told("a lone caller: the store", c.Of("store"), measure.PerSecond),
		told("a lone caller: the same by hand", c.Of("direct"), measure.PerSecond),
	}, err
}
