package gates

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/bench/internal/measure"
)

// postgresExactlyOnce: a debit of two statements under a claim, next to the
// same debit without deduplication and to the form that is commonly written by
// hand.
func postgresExactlyOnce(ctx context.Context, m *Machine) ([]measure.Finding, error) {
	made, err := tripsOf(ctx, m, (*bank).debit)
	if err != nil {
		return nil, err
	}
	findings := []measure.Finding{counted("round trips", made, measure.Equal(4))}
	for _, callers := range []int{16, 64} {
		f, err := compareDebits(ctx, m, callers, 0)
		if err != nil {
			return findings, err
		}
		findings = append(findings, f...)
	}
	f, err := compareDebits(ctx, m, 16, distance)
	return append(findings, f...), err
}

// distance is what a round trip takes to a server in another building of one
// region.
const distance = time.Millisecond

// tripsOf counts the round trips of a debit on a connection that has made one.
func tripsOf(ctx context.Context, m *Machine, debit func(*bank, context.Context) error) (_ float64, err error) {
	var counter trips
	b, err := newBank(ctx, m, 1, func(c *pgxpool.Config) { c.ConnConfig.DialFunc = counter.dial })
	if err != nil {
		return 0, err
	}
	defer closing(b.close, &err)
	if err := debit(b, ctx); err != nil {
		return 0, err
	}
	return counter.during(func() error { return debit(b, ctx) })
}

// closing closes and keeps the error.
func closing(close func() error, err *error) {
	if closeErr := close(); *err == nil {
		*err = closeErr
	}
}

// compareDebits compares at a server whose round trips take so much longer.
func compareDebits(ctx context.Context, m *Machine, callers int, distance time.Duration) (_ []measure.Finding, err error) {
	b, err := newBank(ctx, m, callers, func(c *pgxpool.Config) {
		if distance > 0 {
			c.ConnConfig.DialFunc = far(distance).dial
		}
	})
	if err != nil {
		return nil, err
	}
	defer closing(b.close, &err)
	c, err := m.Plan.Compare(ctx,
		measure.Throughput("bare", callers, b.bare),
		measure.Throughput("naive", callers, b.naive),
		measure.Throughput("dedup", callers, b.debit))
	of := fmt.Sprintf("%d callers: ", callers)
	if distance > 0 {
		of = fmt.Sprintf("%d callers, %v away: ", callers, distance)
	}
	return []measure.Finding{
		one(of+"exactly once : without deduplication", c.Ratio("dedup", "bare"), measure.Times, measure.AtLeast(0.75)),
		one(of+"exactly once : six trips by hand", c.Ratio("dedup", "naive"), measure.Times, measure.AtLeast(1.15)),
		told(of+"exactly once", c.Of("dedup"), measure.PerSecond),
		told(of+"without deduplication", c.Of("bare"), measure.PerSecond),
	}, err
}
