package torture

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
)

// report is what a run of the tests has done.
type report struct {
	mu         sync.Mutex
	faults     map[string]int
	operations int
	violations int
}

// totals is over all worlds of a run.
var totals report

// fault counts faults of a kind.
func (r *report) fault(kind string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.faults == nil {
		r.faults = make(map[string]int)
	}
	r.faults[kind] += n
}

// history counts the operations and the violations of a world.
func (r *report) history(operations, violations int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.operations += operations
	r.violations += violations
}

// print writes the report, unless there is nothing to tell.
func (r *report) print(to io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.operations == 0 {
		return
	}
	fmt.Fprintln(to, "\nfaults injected")
	for _, kind := range slices.Sorted(maps.Keys(r.faults)) {
		fmt.Fprintf(to, "  %-45s %8d\n", kind, r.faults[kind])
	}
	fmt.Fprintf(to, "operations %d\nviolations %d\nseed       %d\n", r.operations, r.violations, *seed)
}
