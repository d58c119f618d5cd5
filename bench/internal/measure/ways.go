package measure

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Loop is a way whose rounds give nanoseconds for each operation, done by one
// goroutine.
func Loop(name string, op func() error) Way {
	n := 0
	return Way{Name: name, Round: func(_ context.Context, d time.Duration) (float64, error) {
		if n == 0 {
			var err error
			if n, err = fitting(op, d); err != nil {
				return 0, err
			}
		}
		took, err := repeat(op, n)
		return float64(took.Nanoseconds()) / float64(n), err
	}}
}

// fitting returns how many operations take about d.
func fitting(op func() error, d time.Duration) (int, error) {
	for n := 1; ; n *= 2 {
		took, err := repeat(op, n)
		if err != nil {
			return 0, err
		}
		if took > d/8 {
			return max(1, int(float64(n)*float64(d)/float64(took))), nil
		}
	}
}

func repeat(op func() error, n int) (time.Duration, error) {
	began := time.Now()
	for range n {
		if err := op(); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

// Share is a way whose rounds give nanoseconds of wall time for each operation,
// done by so many goroutines at once.
func Share(name string, goroutines int, op func() error) Way {
	way := Throughput(name, goroutines, func(context.Context) error { return op() })
	rate := way.Round
	way.Round = func(ctx context.Context, d time.Duration) (float64, error) {
		perSecond, err := rate(ctx, d)
		return float64(time.Second.Nanoseconds()) / perSecond, err
	}
	return way
}

// burst is how many operations go between two looks at the clock, where they
// are so short that looking would count.
const burst = 32

// Throughput is a way whose rounds give operations per second, done by so many
// callers at once.
func Throughput(name string, callers int, op func(context.Context) error) Way {
	return Way{Name: name, Round: func(ctx context.Context, d time.Duration) (float64, error) {
		done := make([]int, callers)
		began := time.Now()
		err := together(callers, func(i int) error {
			for time.Since(began) < d {
				n, err := several(ctx, op, d)
				if done[i] += n; err != nil {
					return err
				}
			}
			return nil
		})
		total := 0
		for _, n := range done {
			total += n
		}
		return float64(total) / time.Since(began).Seconds(), err
	}}
}

// several does op once, or a burst of it where one is short.
func several(ctx context.Context, op func(context.Context) error, d time.Duration) (int, error) {
	began := time.Now()
	if err := op(ctx); err != nil {
		return 0, err
	}
	if time.Since(began) > d/10_000 {
		return 1, nil
	}
	for i := 1; i < burst; i++ {
		if err := op(ctx); err != nil {
			return i, err
		}
	}
	return burst, nil
}

// Latency is a way whose rounds give a quantile, in nanoseconds, of what op
// returns, called by so many at once.
func Latency(name string, callers int, q float64, op func(context.Context) (time.Duration, error)) Way {
	return Way{Name: name, Round: func(ctx context.Context, d time.Duration) (float64, error) {
		took := make([][]float64, callers)
		began := time.Now()
		err := together(callers, func(i int) error {
			for time.Since(began) < d {
				t, err := op(ctx)
				if err != nil {
					return err
				}
				took[i] = append(took[i], float64(t.Nanoseconds()))
			}
			return nil
		})
		all := slices.Concat(took...)
		slices.Sort(all)
		return quantile(all, q), err
	}}
}

func together(n int, f func(i int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// Repeat does op n times, by so many callers at once.
func Repeat(ctx context.Context, callers, n int, op func(context.Context) error) error {
	return together(callers, func(i int) error {
		for ; i < n; i += callers {
			if err := op(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}
