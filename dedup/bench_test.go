package dedup_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
)

func answer(context.Context) (dedup.Outcome, error) {
	return dedup.Outcome{Response: response}, nil
}

var response = dedup.Payload{Type: "ledger.v1.DebitResponse", Value: make([]byte, 100)}

func newEngine(tb testing.TB, store dedup.Store, opts ...dedup.Option) *dedup.Engine {
	tb.Helper()
	e, err := dedup.NewEngine(store, opts...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := e.Close(); err != nil {
			tb.Error(err)
		}
	})
	return e
}

func debit(id string) dedup.Operation {
	return dedup.Operation{
		Key:         dedup.Key{Scope: "tenant", Method: "/ledger.v1.LedgerService/Debit", ID: id},
		Fingerprint: dedup.Fingerprint{Version: dedup.FingerprintProto},
	}
}

func BenchmarkNewKey(b *testing.B) {
	e := newEngine(b, dedup.NewMemory(dedup.WithMaxKeys(1<<30), dedup.WithMaxBytes(1<<40)), dedup.WithRetention(time.Second))
	ids := make([]string, b.N)
	for i := range ids {
		ids[i] = "01890a5d-ac96-774b-bcce-" + strconv.Itoa(100000000000+i)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if _, err := e.Do(b.Context(), debit(ids[i]), answer); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReplay(b *testing.B) {
	e := newEngine(b, dedup.NewMemory())
	op := debit("01890a5d-ac96-774b-bcce-b302099a8057")
	b.ReportAllocs()
	for range b.N {
		if _, err := e.Do(b.Context(), op, answer); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNewKeyParallel(b *testing.B) {
	e := newEngine(b, dedup.NewMemory(dedup.WithMaxKeys(1<<30), dedup.WithMaxBytes(1<<40)), dedup.WithRetention(time.Second))
	var next atomic.Int64
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := e.Do(b.Context(), debit(strconv.FormatInt(next.Add(1), 10)), answer); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkReplayParallel(b *testing.B) {
	e := newEngine(b, dedup.NewMemory())
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			if _, err := e.Do(b.Context(), debit(strconv.Itoa(i%1000)), answer); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
