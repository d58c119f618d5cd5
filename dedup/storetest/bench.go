package storetest

import "testing"

// Bench measures what an operation costs the stores: claim and complete,
// replay, and many callers of one operation.
func Bench(b *testing.B, newStorage func(testing.TB) Storage) {
	b.Helper()
	if err := newStorage(b).validate(); err != nil {
		b.Fatal(err)
	}
}
