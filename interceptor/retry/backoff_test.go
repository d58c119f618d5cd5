package retry

import (
	"math"
	"runtime"
	"slices"
	"testing"
	"time"
)

func TestCeilingsDoNotOverflow(t *testing.T) {
	const longest = time.Duration(math.MaxInt64)
	for _, tt := range []struct {
		name string
		b    Backoff
		n    int
		want time.Duration
	}{
		{"the first is the base", Backoff{Base: time.Second, Cap: time.Minute, Multiplier: 2}, 0, time.Second},
		{"the fourth", Backoff{Base: time.Second, Cap: time.Minute, Multiplier: 2}, 3, 8 * time.Second},
		{"the cap", Backoff{Base: time.Second, Cap: time.Minute, Multiplier: 2}, 6, time.Minute},
		{"attempt 64", Backoff{Base: time.Second, Cap: time.Minute, Multiplier: 2}, 64, time.Minute},
		{"attempt 10,000", Backoff{Base: time.Second, Cap: time.Minute, Multiplier: 2}, 10_000, time.Minute},
		{"as many as an int counts", Backoff{Base: 1, Cap: longest, Multiplier: 2}, math.MaxInt, longest},
		{"the longest cap", Backoff{Base: time.Second, Cap: longest, Multiplier: 10}, 10_000, longest},
		{"the longest base", Backoff{Base: longest, Cap: longest, Multiplier: 2}, 1, longest},
		{"an enormous multiplier", Backoff{Base: 1, Cap: time.Hour, Multiplier: math.MaxFloat64}, 2, time.Hour},
		{"a multiplier of one", Backoff{Base: time.Second, Cap: time.Minute, Multiplier: 1}, 10_000, time.Second},
		{"a service config's falling multiplier", Backoff{Base: 8 * time.Second, Cap: time.Minute, Multiplier: 0.5}, 3, time.Second},
		{"and its end", Backoff{Base: 8 * time.Second, Cap: time.Minute, Multiplier: 0.5}, 10_000, 0},
		{"a service config's cap below its base", Backoff{Base: time.Minute, Cap: time.Second, Multiplier: 2}, 0, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.b.ceiling(tt.n); got != tt.want {
				t.Errorf("ceiling(%d) = %v, want %v", tt.n, got, tt.want)
			}
		})
	}
}

func TestZerosMeanTheDefaults(t *testing.T) {
	want := Backoff{Base: 100 * time.Millisecond, Cap: 5 * time.Second, Multiplier: 2}
	if got := (Policy{}).rules().backoff; got != want {
		t.Errorf("backoff is %+v, want %+v", got, want)
	}
	if got := (Policy{Backoff: Backoff{Base: time.Hour}}).rules().backoff.Cap; got != time.Hour {
		t.Errorf("the cap of a long base is %v, want the base", got)
	}
}

// Waits stay in their band at every n, for every jitter and the most awkward
// of limits.
func TestWaitsStayInTheirBand(t *testing.T) {
	const longest = time.Duration(math.MaxInt64)
	for _, b := range []Backoff{
		{Base: time.Millisecond, Cap: time.Second, Multiplier: 2},
		{Base: 1, Cap: 1, Multiplier: 1},
		{Base: 1, Cap: longest, Multiplier: 1000},
		{Base: longest, Cap: longest, Multiplier: 2},
		{Base: longest / 2, Cap: longest, Multiplier: 2},
		{Base: time.Minute, Cap: time.Second, Multiplier: 2}, // from a service config
		{Base: time.Second, Cap: time.Second, Multiplier: 0.1},
	} {
		for b.Jitter = JitterFull; b.Jitter <= JitterNone; b.Jitter++ {
			var s backoff
			for n := range 2000 {
				low, previous := time.Duration(0), s.previous
				wait, ceiling := s.next(&b)
				switch b.Jitter {
				case JitterEqual:
					low = ceiling - ceiling/2 - 1
				case JitterNone:
					low = ceiling
				case JitterDecorrelated:
					low = min(b.Base, b.Cap)
					if high := 3 * max(previous, b.Base); high > 0 && high/3 == max(previous, b.Base) && wait > high {
						t.Fatalf("%+v: wait %d is %v, more than three times %v", b, n, wait, previous)
					}
				}
				if wait < low || wait < 0 || wait > ceiling || ceiling > b.Cap {
					t.Fatalf("%+v: wait %d is %v, not between %v and %v", b, n, wait, low, ceiling)
				}
			}
		}
	}
}

// Full jitter is uniform over 0 to d_n, at every n, and equal jitter over the
// upper half: Kolmogorov and Smirnov's test. With 10,000 draws the statistic
// passes 3.4 with a probability of 2*exp(-2*3.4^2), below 2e-10.
func TestJitterIsUniform(t *testing.T) {
	const draws, critical = 10_000, 3.4
	b := Backoff{Base: 100 * time.Millisecond, Cap: 5 * time.Second, Multiplier: 2}
	for _, tt := range []struct {
		jitter Jitter
		n      int
		low    float64 // as a part of the ceiling
	}{
		{JitterFull, 0, 0}, {JitterFull, 3, 0}, {JitterFull, 5, 0}, {JitterFull, 6, 0}, {JitterFull, 10_000, 0},
		{JitterEqual, 0, 0.5}, {JitterEqual, 4, 0.5}, {JitterEqual, 10_000, 0.5},
	} {
		b.Jitter = tt.jitter
		var sample []float64
		for range draws {
			s := backoff{n: tt.n}
			wait, ceiling := s.next(&b)
			sample = append(sample, (float64(wait)/float64(ceiling)-tt.low)/(1-tt.low))
		}
		if k := kolmogorov(sample); k > critical {
			t.Errorf("%v jitter at n = %d: the statistic is %.2f, above %v", tt.jitter, tt.n, k, critical)
		}
	}
}

// The test of the test: what is not uniform is found out.
func TestOtherDistributionsAreFoundOut(t *testing.T) {
	const draws, critical = 10_000, 3.4
	for name, draw := range map[string]func() float64{
		"gRFC A6 since 2024": func() float64 { return 0.8 + 0.2*float64(uniform(0, 1000))/1000 },
		"never above 95 %":   func() float64 { return 0.95 * float64(uniform(0, 1e6)) / 1e6 },
		"none":               func() float64 { return 1 },
		"two values":         func() float64 { return float64(uniform(0, 1)) },
		"the mean of two":    func() float64 { return float64(uniform(0, 1e6)+uniform(0, 1e6)) / 2e6 },
	} {
		var sample []float64
		for range draws {
			sample = append(sample, draw())
		}
		if k := kolmogorov(sample); k <= critical {
			t.Errorf("%s: the statistic is %.2f, not above %v", name, k, critical)
		}
	}
}

// kolmogorov returns sqrt(n) times the largest distance between the sample's
// distribution and the uniform one over 0 to 1.
func kolmogorov(sample []float64) float64 {
	slices.Sort(sample)
	n, largest := float64(len(sample)), 0.0
	for i, x := range sample {
		largest = max(largest, x-float64(i)/n, float64(i+1)/n-x)
	}
	return math.Sqrt(n) * largest
}

// Decorrelated jitter has no fixed band to be uniform over; its first wait has.
func TestTheFirstDecorrelatedWaitIsUniform(t *testing.T) {
	b := Backoff{Base: 100 * time.Millisecond, Cap: 5 * time.Second, Multiplier: 2, Jitter: JitterDecorrelated}
	var sample []float64
	for range 10_000 {
		var s backoff
		wait, _ := s.next(&b)
		sample = append(sample, float64(wait-b.Base)/float64(2*b.Base))
	}
	if k := kolmogorov(sample); k > 3.4 {
		t.Errorf("the statistic is %.2f", k)
	}
}

func TestAPushbackResetsDecorrelatedWaits(t *testing.T) {
	b := Backoff{Base: time.Millisecond, Cap: time.Hour, Multiplier: 2, Jitter: JitterDecorrelated}
	s := backoff{previous: time.Minute}
	s.reset()
	if wait, _ := s.next(&b); wait > 3*time.Millisecond {
		t.Errorf("the first wait after a reset is %v", wait)
	}
}

// Jitter and budget share nothing that many goroutines would queue for: run it
// with one and with 64.
func BenchmarkJitterAndBudget(b *testing.B) {
	policy := Policy{}.rules().backoff
	full := newBucket(Budget{MaxTokens: 100, TokenRatio: 0.1})
	work := func() {
		var s backoff
		s.next(&policy)
		full.give()
	}
	b.Run("1", func(b *testing.B) {
		for b.Loop() {
			work()
		}
	})
	b.Run("64", func(b *testing.B) {
		b.SetParallelism((64 + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0))
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				work()
			}
		})
	})
}
