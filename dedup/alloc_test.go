//go:build !race

package dedup_test

import (
	"strconv"
	"testing"

	"github.com/retrysafe/retrysafe/dedup"
)

// TestAllocations keeps the engine within its share of what a deduplicated call
// may allocate. Measured: 9 for a new key (the call, the run, the handler's
// context, the lease's timer with its function, the record, and three in the
// store, which grows now and then), 3 for a replay (the call, and two of what
// is decoded). The limits leave room for another release of Go.
func TestAllocations(t *testing.T) {
	e := newEngine(t, dedup.NewMemory())
	ids := make([]string, 2002)
	for i := range ids {
		ids[i] = strconv.Itoa(i)
	}
	next := 0
	fresh := testing.AllocsPerRun(2000, func() {
		next++
		if _, err := e.Do(t.Context(), debit(ids[next]), answer); err != nil {
			t.Fatal(err)
		}
	})
	if fresh > 11 {
		t.Errorf("a new key: %v allocations", fresh)
	}
	replay := testing.AllocsPerRun(2000, func() {
		if _, err := e.Do(t.Context(), debit("0"), answer); err != nil {
			t.Fatal(err)
		}
	})
	if replay > 5 {
		t.Errorf("a replay: %v allocations", replay)
	}
	t.Logf("a new key: %v, a replay: %v", fresh, replay)
}
