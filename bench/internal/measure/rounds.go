package measure

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"
)

// Plan says how long is measured.
type Plan struct {
	// Rounds is how often the ways take turns, and Round how long each of them
	// runs every time.
	Rounds int
	Round  time.Duration
	// Short asks for less data too: a tenth of the records, or less.
	Short bool
}

// Cut is the plan in rounds of d, and as many more, for what only computes.
// Rounds of a millisecond are shorter than a scheduler lets a thread run where
// others want the processor too, so that most have no interruption and the
// medians do not know how busy the machine is. But few of them have a garbage
// collection either: what allocates is compared in rounds that have some.
func (p Plan) Cut(d time.Duration) Plan {
	if p.Round <= d {
		return p
	}
	times := int(p.Round / d)
	p.Round /= time.Duration(times)
	p.Rounds *= times
	return p
}

// worthCollecting is how long a round is before which garbage is collected.
const worthCollecting = 50 * time.Millisecond

// Way is one way of doing what is compared.
type Way struct {
	Name string
	// Round does it for about d and returns the round's value.
	Round func(ctx context.Context, d time.Duration) (float64, error)
}

// Comparison holds what each way's rounds gave.
type Comparison map[string][]float64

// Compare lets the ways take turns. Each round starts with the next way, so
// that none always runs after the same other one.
func (p Plan) Compare(ctx context.Context, ways ...Way) (Comparison, error) {
	c := make(Comparison)
	for round := -1; round < p.Rounds; round++ {
		for i := range ways {
			way := ways[(i+round+1)%len(ways)]
			if p.Round >= worthCollecting {
				runtime.GC() // none pays for what another left behind
			}
			value, err := way.Round(ctx, p.Round)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", way.Name, err)
			}
			if round >= 0 {
				c[way.Name] = append(c[way.Name], value)
			}
		}
	}
	return c, nil
}

// Spread is a median with its quartiles.
type Spread struct{ Low, Median, High float64 }

// Of returns the spread of one way's values. That of a way that there is not
// is NaN, which keeps no limit.
func (c Comparison) Of(name string) Spread { return spread(c[name]) }

// Ratio returns the spread of the rounds' ratios of one way to another.
func (c Comparison) Ratio(way, to string) Spread {
	return spread(c.each(way, to, func(a, b float64) float64 { return a / b }))
}

// Derive adds a way whose values are computed, round by round, of two others'.
func (c Comparison) Derive(name, a, b string, f func(a, b float64) float64) {
	c[name] = c.each(a, b, f)
}

func (c Comparison) each(a, b string, f func(a, b float64) float64) []float64 {
	as, bs := c[a], c[b]
	values := make([]float64, min(len(as), len(bs)))
	for i := range values {
		values[i] = f(as[i], bs[i])
	}
	return values
}

// Median returns the median of values.
func Median(values []float64) float64 { return spread(values).Median }

func spread(values []float64) Spread {
	sorted := slices.Sorted(slices.Values(values))
	return Spread{quantile(sorted, 0.25), quantile(sorted, 0.5), quantile(sorted, 0.75)}
}

// quantile interpolates between the two values beside the place.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	place := q * float64(len(sorted)-1)
	below := int(place)
	above := min(below+1, len(sorted)-1)
	return sorted[below] + (place-float64(below))*(sorted[above]-sorted[below])
}
