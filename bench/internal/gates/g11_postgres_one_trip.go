package gates

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/retrysafe/retrysafe/bench/internal/measure"
	"github.com/retrysafe/retrysafe/dedup"
)

// postgresOneTrip: the debit as one batch, and a replay, next to the
// transaction without deduplication.
func postgresOneTrip(ctx context.Context, m *Machine) ([]measure.Finding, error) {
	made, err := tripsOf(ctx, m, (*bank).oneTrip)
	if err != nil {
		return nil, err
	}
	findings := []measure.Finding{counted("one-trip form: round trips", made, measure.Equal(1))}
	for _, callers := range []int{16, 64} {
		f, err := compareOneTrip(ctx, m, callers)
		if err != nil {
			return findings, err
		}
		findings = append(findings, f...)
	}
	return findings, nil
}

func compareOneTrip(ctx context.Context, m *Machine, callers int) (_ []measure.Finding, err error) {
	b, err := newBank(ctx, m, callers, nil)
	if err != nil {
		return nil, err
	}
	defer closing(b.close, &err)
	completed := make([]dedup.Key, 1000)
	for i := range completed {
		completed[i] = newKey()
		if err := b.debitOnce(ctx, completed[i]); err != nil {
			return nil, err
		}
	}
	c, err := m.Plan.Compare(ctx,
		measure.Throughput("bare", callers, b.bare),
		measure.Throughput("once", callers, b.oneTrip),
		measure.Throughput("replay", callers, func(ctx context.Context) error {
			return replay(ctx, b.store, completed[rand.N(len(completed))])
		}))
	of := fmt.Sprintf("%d callers: ", callers)
	return []measure.Finding{
		one(of+"one trip : without deduplication", c.Ratio("once", "bare"), measure.Times, measure.AtLeast(1.3)),
		one(of+"replay : without deduplication", c.Ratio("replay", "bare"), measure.Times, measure.AtLeast(3.5)),
		told(of+"one trip", c.Of("once"), measure.PerSecond),
		told(of+"replay", c.Of("replay"), measure.PerSecond),
	}, err
}

// replay asks for an operation that is completed.
func replay(ctx context.Context, store dedup.Store, key dedup.Key) error {
	answer, err := store.Claim(ctx, claimRequest(key))
	if err == nil && answer.State != dedup.Completed {
		err = fmt.Errorf("answered %v", answer.State)
	}
	return err
}
