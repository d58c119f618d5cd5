package replicatest

import (
	"context"
	"testing"

	"github.com/retrysafe/retrysafe/dedup"
)

// BenchmarkReplay is what a repeat costs that comes to the replica that executed,
// with and without a cache.
func BenchmarkReplay(b *testing.B) {
	for _, k := range all {
		s := newStorage(b, k)
		store := s.store(b)
		cache, err := dedup.NewCache(store)
		must(b, err)
		for _, with := range []struct {
			name  string
			store dedup.Store
		}{{"the store", store}, {"a cache", cache}} {
			b.Run(string(k)+"/"+with.name, func(b *testing.B) { replays(b, with.store) })
		}
	}
}

func replays(b *testing.B, store dedup.Store) {
	engine, err := dedup.NewEngine(store)
	must(b, err)
	defer engine.Close()
	op := newOperation()
	execute := func(context.Context) (dedup.Outcome, error) {
		return dedup.Outcome{Response: dedup.Payload{Value: make([]byte, 256)}}, nil
	}
	_, err = engine.Do(b.Context(), op, execute)
	must(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := engine.Do(b.Context(), op, execute); err != nil {
			b.Fatal(err)
		}
	}
}
