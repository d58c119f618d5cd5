package measure

import (
	"math"
	"runtime"
	"testing"
)

// costRuns is how many runs an average is taken of.
const costRuns = 1000

// Allocs returns how many allocations one run of op makes, in all goroutines of
// this process, as [testing.AllocsPerRun] counts.
func Allocs(op func() error) (float64, error) {
	var failed error
	for range 10 { // pools and tables are filled once
		if err := op(); err != nil {
			return 0, err
		}
	}
	n := testing.AllocsPerRun(costRuns, func() {
		if err := op(); err != nil {
			failed = err
		}
	})
	return n, failed
}

// Bytes returns how many bytes one run of op allocates, rounded down.
func Bytes(op func() error) (float64, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if err := op(); err != nil {
		return 0, err
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range costRuns {
		if err := op(); err != nil {
			return 0, err
		}
	}
	runtime.ReadMemStats(&after)
	return math.Floor(float64(after.TotalAlloc-before.TotalAlloc) / costRuns), nil
}
