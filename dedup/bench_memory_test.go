package dedup

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"
)

const benchKeys = 1_000_000

// mapped is what a program would keep in a sync.Map instead.
type mapped struct {
	fingerprint Fingerprint
	owner       Owner
	fence       uint64
	expires     time.Time
	record      []byte
}

func benchKey(i int) Key {
	return Key{Scope: "tenant", Method: "/ledger.v1.LedgerService/Debit", ID: fmt.Sprintf("01890a5d-ac96-774b-bcce-%012x", i*7919)}
}

func fillMemory(b *testing.B) *Memory {
	m := NewMemory(WithMaxKeys(2*benchKeys), WithMaxBytes(1<<40))
	ctx := context.Background()
	record := make([]byte, 100)
	for i := range benchKeys {
		a, err := m.Claim(ctx, ClaimRequest{Key: benchKey(i), Lease: time.Hour, Retention: time.Hour})
		if err != nil {
			b.Fatal(err)
		}
		if err := a.Claim.Complete(ctx, Completion{Record: record, Retention: time.Hour}); err != nil {
			b.Fatal(err)
		}
	}
	return m
}

func fillMap() *sync.Map {
	m := new(sync.Map)
	for i := range benchKeys {
		key := benchKey(i)
		key.ID = string([]byte(key.ID))
		m.Store(key, &mapped{
			fingerprint: Fingerprint{Version: FingerprintProto},
			owner:       Owner{1},
			fence:       1,
			expires:     time.Now(),
			record:      make([]byte, 100),
		})
	}
	return m
}

// BenchmarkMillionKeys compares the store with a sync.Map of as many outcomes:
// reading one, the heap, and a full collection.
func BenchmarkMillionKeys(b *testing.B) {
	probes := make([]Key, 1<<16)
	for i := range probes {
		probes[i] = benchKey(i * 15 % benchKeys)
	}
	measure := func(b *testing.B, fill func() any, get func(store any, i int)) {
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		store := fill()
		runtime.GC()
		runtime.ReadMemStats(&after)
		begin := time.Now()
		for range 3 {
			runtime.GC()
		}
		gc := time.Since(begin) / 3
		b.ResetTimer()
		for i := range b.N {
			get(store, i)
		}
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/benchKeys, "B/key")
		b.ReportMetric(float64(gc.Microseconds())/1000, "ms/gc")
		runtime.KeepAlive(store)
	}
	b.Run("Memory", func(b *testing.B) {
		ctx := context.Background()
		measure(b, func() any { return fillMemory(b) }, func(store any, i int) {
			a, err := store.(*Memory).Claim(ctx, ClaimRequest{Key: probes[i&(1<<16-1)], Lease: time.Hour, Retention: time.Hour})
			if err != nil || a.State != Completed {
				b.Fatal(a.State, err)
			}
		})
	})
	b.Run("SyncMap", func(b *testing.B) {
		measure(b, func() any { return fillMap() }, func(store any, i int) {
			if _, ok := store.(*sync.Map).Load(probes[i&(1<<16-1)]); !ok {
				b.Fatal("gone")
			}
		})
	})
}
