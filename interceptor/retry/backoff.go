package retry

import (
	"math"
	"math/rand/v2"
	"time"
)

// backoff is the state of the waits of one call at one target.
type backoff struct {
	n        int           // waits computed since the start or the last pushback
	previous time.Duration // the wait before, for JitterDecorrelated; 0: none yet
}

// next draws the next wait and returns it with the ceiling that it stays
// below.
func (s *backoff) next(b *Backoff) (wait, ceiling time.Duration) {
	if b.Immediate {
		return 0, 0
	}
	if b.Jitter == JitterDecorrelated {
		s.previous = decorrelated(b, s.previous)
		return s.previous, b.Cap
	}
	ceiling = b.ceiling(s.n)
	s.n++
	return b.Jitter.draw(ceiling), ceiling
}

// reset starts the waits anew, as a pushback does.
func (s *backoff) reset() { *s = backoff{} }

// ceiling returns min(Cap, Base * Multiplier^n). The product is taken in
// floating point, where it grows to infinity instead of overflowing.
func (b *Backoff) ceiling(n int) time.Duration {
	d := float64(b.Base) * math.Pow(b.Multiplier, float64(n))
	if !(d < float64(b.Cap)) { // so written that NaN is capped too
		return b.Cap
	}
	return time.Duration(d)
}

func (j Jitter) draw(ceiling time.Duration) time.Duration {
	switch j {
	case JitterEqual:
		return ceiling - uniform(0, ceiling/2)
	case JitterNone:
		return ceiling
	default:
		return uniform(0, ceiling)
	}
}

func decorrelated(b *Backoff, previous time.Duration) time.Duration {
	previous = max(previous, b.Base)
	high := time.Duration(math.MaxInt64)
	if previous <= high/3 {
		high = 3 * previous
	}
	return min(b.Cap, uniform(b.Base, high))
}

// uniform draws from low to high, both included. The top level of math/rand/v2
// is seeded by the runtime and shares no lock.
func uniform(low, high time.Duration) time.Duration {
	return low + time.Duration(rand.Uint64N(uint64(high-low)+1))
}
