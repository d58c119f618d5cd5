package storetest_test

import (
	"fmt"
	"testing"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/storetest"
)

// newStorage makes two stores over one storage. What lives in the memory of
// one store has only that one.
func newStorage(testing.TB) storetest.Storage {
	store := dedup.NewMemory()
	return storetest.Storage{First: store, Second: store}
}

// The test and the benchmark of a store are one line each:
//
//	func TestStore(t *testing.T) { storetest.Run(t, newStorage) }
//
//	func BenchmarkStore(b *testing.B) { storetest.Bench(b, newStorage) }
func Example() {
	storage := newStorage(nil)
	fmt.Println("promises", storage.First.Promise())
	_, wakes := storage.First.(dedup.Waiter)
	fmt.Println("wakes those who wait:", wakes)
	// Output:
	// promises at most one at a time
	// wakes those who wait: true
}
