package gates

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/bench/internal/measure"
	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/interceptor/idempotency"
)

// mapped is what a program would keep of an outcome in a sync.Map.
type mapped struct {
	fingerprint dedup.Fingerprint
	owner       dedup.Owner
	fence       uint64
	expires     time.Time
	record      []byte
}

// memoryStore compares the store in memory with a sync.Map of as many outcomes:
// finding one, the heap, and a full collection.
func memoryStore(ctx context.Context, m *Machine) ([]measure.Finding, error) {
	keys := 1_000_000
	if m.Plan.Short {
		keys /= 10
	}
	footprints, err := comparedFootprints(ctx, m.Plan, keys)
	if err != nil {
		return nil, err
	}
	ids := newKeys(keys)
	store, err := filledMemory(ctx, ids)
	if err != nil {
		return nil, err
	}
	byHand := filledMap(ids)
	request := claimRequest(dedup.Key{}) // one owner, since drawing it is not the store's doing
	c, err := m.Plan.Compare(ctx, finding("store", ids, func(key dedup.Key) error {
		request.Key = key
		answer, err := store.Claim(ctx, request)
		if err == nil && answer.State != dedup.Completed {
			err = fmt.Errorf("answered %v", answer.State)
		}
		return err
	}), finding("sync.Map", ids, func(key dedup.Key) error {
		if _, ok := byHand.Load(key); !ok {
			return errors.New("it is gone")
		}
		return nil
	}))
	what := fmt.Sprintf(" : sync.Map, %d keys", keys)
	return []measure.Finding{
		one("get"+what, c.Ratio("store", "sync.Map"), measure.Times, measure.AtMost(0.8)),
		one("heap"+what, footprints.Ratio("store heap", "sync.Map heap"), measure.Times, measure.AtMost(0.85)),
		one("full collection"+what, footprints.Ratio("store GC", "sync.Map GC"), measure.Times, measure.AtMost(0.3)),
		told("get", c.Of("store"), measure.Nanoseconds),
		told("sync.Map: get", c.Of("sync.Map"), measure.Nanoseconds),
		told("full collection", footprints.Of("store GC"), measure.Nanoseconds),
		told("sync.Map: full collection", footprints.Of("sync.Map GC"), measure.Nanoseconds),
		told("heap for each key", footprints.Of("store heap"), measure.Byte),
		told("sync.Map: heap for each key", footprints.Of("sync.Map heap"), measure.Byte),
	}, err
}

// finding is a way whose rounds give the nanoseconds of finding one of the
// keys, in an order that jumps about. The key itself is at hand, as that of a
// call is that has just been read: a batch is copied before the clock starts.
func finding(name string, ids []string, get func(dedup.Key) error) measure.Way {
	const batch = 256
	next := 0
	return measure.Way{Name: name, Round: func(_ context.Context, d time.Duration) (float64, error) {
		var times []float64
		keys := make([]dedup.Key, batch)
		for began := time.Now(); time.Since(began) < d; {
			for i := range keys {
				next = (next + 7919) % len(ids)
				keys[i] = keyOf(strings.Clone(ids[next]))
			}
			start := time.Now()
			for _, key := range keys {
				if err := get(key); err != nil {
					return 0, err
				}
			}
			times = append(times, float64(time.Since(start).Nanoseconds())/batch)
		}
		return measure.Median(times), nil
	}}
}

func newKeys(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = idempotency.NewKey()
	}
	return ids
}

func filledMemory(ctx context.Context, ids []string) (*dedup.Memory, error) {
	store := dedup.NewMemory(dedup.WithMaxKeys(2*len(ids)), dedup.WithMaxBytes(1<<40))
	for _, id := range ids {
		answer, err := store.Claim(ctx, claimRequest(keyOf(id)))
		if err != nil {
			return nil, err
		}
		if err := answer.Claim.Complete(ctx, completion); err != nil {
			return nil, err
		}
	}
	return store, nil
}

func filledMap(ids []string) *sync.Map {
	m := new(sync.Map)
	for _, id := range ids {
		// The ID of a call lives in the memory of its metadata, and would keep that.
		key := keyOf(strings.Clone(id))
		m.Store(key, &mapped{fingerprint: debitFingerprint, owner: dedup.Owner{1}, fence: 1, expires: time.Now(), record: append([]byte(nil), record...)})
	}
	return m
}

// comparedFootprints fills one after the other, so that neither is there while
// the other is measured.
func comparedFootprints(ctx context.Context, p measure.Plan, keys int) (measure.Comparison, error) {
	ids := newKeys(keys)
	c := make(measure.Comparison)
	for range min(3, p.Rounds) {
		for _, way := range []struct {
			name string
			fill func() (any, error)
		}{
			{"store", func() (any, error) { return filledMemory(ctx, ids) }},
			{"sync.Map", func() (any, error) { return filledMap(ids), nil }},
		} {
			heap, gc, err := footprint(way.fill)
			if err != nil {
				return nil, err
			}
			c[way.name+" heap"] = append(c[way.name+" heap"], heap/float64(keys))
			c[way.name+" GC"] = append(c[way.name+" GC"], gc)
		}
	}
	return c, nil
}

// footprint returns what is on the heap because of what fill returns, and how
// many nanoseconds more a full collection takes because of it.
func footprint(fill func() (any, error)) (heap, gc float64, err error) {
	emptyHeap, emptyGC := collected()
	filled, err := fill()
	if err != nil {
		return 0, 0, err
	}
	fullHeap, fullGC := collected()
	runtime.KeepAlive(filled)
	return fullHeap - emptyHeap, fullGC - emptyGC, nil
}

// collected returns the live heap, and what a full collection takes: the
// quickest of five, since whatever else runs can only make it slower.
func collected() (heap, nanoseconds float64) {
	runtime.GC()
	quickest := time.Duration(1<<63 - 1)
	for range 5 {
		began := time.Now()
		runtime.GC()
		quickest = min(quickest, time.Since(began))
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc), float64(quickest.Nanoseconds())
}
