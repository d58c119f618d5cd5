package storetest

import "testing"

// Run runs every case that applies to the stores as a subtest, each on a
// storage that newStorage makes for it and cleans up with the given TB.
//
// The storage behind the stores need not be empty nor unused: every case works
// on operations of its own. What a case declares must not change from call to
// call.
func Run(t *testing.T, newStorage func(testing.TB) Storage) {
	t.Helper()
	if err := newStorage(t).validate(); err != nil {
		t.Fatal(err)
	}
}

// Bench measures what an operation costs the stores: claim and complete,
// replay, and many callers of one operation.
func Bench(b *testing.B, newStorage func(testing.TB) Storage) {
	b.Helper()
	if err := newStorage(b).validate(); err != nil {
		b.Fatal(err)
	}
}
