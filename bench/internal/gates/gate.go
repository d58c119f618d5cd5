package gates

import (
	"context"
	"time"

	"github.com/retrysafe/retrysafe/bench/internal/measure"
)

// Gate is one promise.
type Gate struct {
	// Name is its number, with two digits, and its subject.
	Name string
	// Run measures. Findings that it returns beside an error count.
	Run func(ctx context.Context, m *Machine) ([]measure.Finding, error)
}

// All returns the gates, and after them what is measured without a limit, for
// docs/scaling.md.
func All() []Gate {
	return []Gate{
		{"01-nothing-fails", nothingFails},
		{"02-keyed", keyed},
		{"03-over-tcp", overTCP},
		{"04-further-attempts", furtherAttempts},
		{"05-no-time-left", noTimeLeft},
		{"06-jitter-and-budget", jitterAndBudget},
		{"07-server", server},
		{"08-memory-store", memoryStore},
		{"09-fingerprint", fingerprints},
		{"10-postgres-exactly-once", postgresExactlyOnce},
		{"11-postgres-one-trip", postgresOneTrip},
		{"12-sqlite-group-commit", sqliteGroupCommit},
		{"13-redis", redisTrips},
		{"14-sweeping", sweeping},
		{"15-growth", growth},
		{"20-capacity", capacity},
	}
}

// How long rounds are of what only computes.
const (
	noGarbage   = time.Millisecond
	someGarbage = 20 * time.Millisecond
)

// one is a finding of one figure.
func one(what string, value measure.Spread, unit measure.Unit, limit measure.Limit) measure.Finding {
	return measure.Finding{figure(what, value, unit, limit)}
}

func figure(what string, value measure.Spread, unit measure.Unit, limit measure.Limit) measure.Figure {
	return measure.Figure{What: what, Value: value, Unit: unit, Limit: limit}
}

// told is a finding without a limit.
func told(what string, value measure.Spread, unit measure.Unit) measure.Finding {
	return one(what, value, unit, measure.Limit{})
}

// counted is a finding that was counted, not timed.
func counted(what string, n float64, limit measure.Limit) measure.Finding {
	return one(what, measure.Exactly(n), measure.Count, limit)
}

// allocs is a finding about the allocations of one run of op.
func allocs(what string, most float64, op func() error) (measure.Finding, error) {
	n, err := measure.Allocs(op)
	return counted(what+": allocations", n, measure.AtMost(most)), err
}
