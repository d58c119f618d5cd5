package dedup_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/storetest"
)

func newCache(tb testing.TB, store dedup.Store, opts ...dedup.CacheOption) dedup.Cache {
	tb.Helper()
	c, err := dedup.NewCache(store, opts...)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// TestCacheConforms: the suite finds no difference between a store and caches
// in front of it.
func TestCacheConforms(t *testing.T) {
	var caches []dedup.Cache
	storetest.Run(t, func(tb testing.TB) storetest.Storage {
		store := dedup.NewMemory()
		first, second := newCache(tb, store), newCache(tb, store)
		caches = append(caches, first, second)
		return storetest.Storage{First: first, Second: second}
	})
	var hits uint64
	for _, c := range caches {
		hits += c.Stats().Hits
	}
	if hits == 0 {
		t.Error("the caches answered nothing")
	}
}

// request asks for an operation as a newcomer does.
func request(id string) dedup.ClaimRequest {
	return dedup.ClaimRequest{
		Key: debit(id).Key, Fingerprint: debit(id).Fingerprint, Owner: newOwner(),
		Lease: time.Minute, Retention: time.Hour, Takeover: true,
	}
}

func newOwner() (owner dedup.Owner) {
	rand.Read(owner[:]) // never fails, by its documentation
	return owner
}

func completion(record string) dedup.Completion {
	return dedup.Completion{Record: []byte(record), Retention: time.Hour}
}

// ask claims, and fails the test where there is no answer of the state.
func ask(tb testing.TB, store dedup.Store, req dedup.ClaimRequest, want dedup.State) dedup.Answer {
	tb.Helper()
	answer, err := store.Claim(tb.Context(), req)
	if err != nil {
		tb.Fatal(err)
	}
	if answer.State != want {
		tb.Fatalf("answered %v, want %v", answer.State, want)
	}
	return answer
}

// execute claims and completes an operation.
func execute(tb testing.TB, store dedup.Store, id, record string) {
	tb.Helper()
	claim := ask(tb, store, request(id), dedup.Claimed).Claim
	if err := claim.Complete(tb.Context(), completion(record)); err != nil {
		tb.Fatal(err)
	}
}

func wantRecord(tb testing.TB, store dedup.Store, id, want string) {
	tb.Helper()
	if answer := ask(tb, store, request(id), dedup.Completed); string(answer.Record) != want {
		tb.Errorf("record %q, want %q", answer.Record, want)
	}
}

func wantAsked(tb testing.TB, store *hooked, want int64) {
	tb.Helper()
	if n := store.claims.Load(); n != want {
		tb.Errorf("the store was asked %d times, want %d", n, want)
	}
}

func TestACacheAnswersRepeatsWithoutTheStore(t *testing.T) {
	store := newHooked()
	cache := newCache(t, store)
	e := newEngine(t, cache)
	fn, ran := counted(dedup.Outcome{Response: response})
	for i := range 3 {
		res, err := e.Do(t.Context(), debit("k"), fn)
		if err != nil {
			t.Fatal(err)
		}
		if want := (dedup.Result{Outcome: dedup.Outcome{Response: response}, Replayed: i > 0}); !reflect.DeepEqual(res, want) {
			t.Errorf("call %d: got %+v, want %+v", i, res, want)
		}
	}
	wantAsked(t, store, 1)
	if *ran != 1 {
		t.Errorf("executed %d times", *ran)
	}
	got := cache.Stats()
	if got.Hits != 2 || got.Misses != 1 || got.Keys != 1 || got.Bytes < int64(len(response.Value)) {
		t.Errorf("stats %+v", got)
	}
}

func TestACacheTellsAnotherRequest(t *testing.T) {
	store := newHooked()
	cache := newCache(t, store)
	execute(t, cache, "k", "paid")
	req := request("k")
	req.Fingerprint = dedup.FingerprintBytes([]byte("another"))
	if answer := ask(t, cache, req, dedup.Reused); answer.Fingerprint != debit("k").Fingerprint {
		t.Errorf("reused %v, want that of the first request", answer.Fingerprint)
	}
	wantRecord(t, cache, "k", "paid")
	wantAsked(t, store, 1)
}

func TestACacheKeepsOperationsApart(t *testing.T) {
	cache := newCache(t, dedup.NewMemory())
	for i, key := range []dedup.Key{
		{Scope: "a", Method: "m", ID: "k"}, {Scope: "b", Method: "m", ID: "k"}, {Scope: "a", Method: "n", ID: "k"},
		{Scope: "am", Method: "", ID: "k"}, {Scope: "", Method: "am", ID: "k"}, {Scope: "a", Method: "mk", ID: ""},
	} {
		req := request("")
		req.Key = key
		claim := ask(t, cache, req, dedup.Claimed).Claim
		if err := claim.Complete(t.Context(), completion(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
		if answer := ask(t, cache, req, dedup.Completed); string(answer.Record) != fmt.Sprint(i) {
			t.Errorf("%#v: record %q, want %d", key, answer.Record, i)
		}
	}
}

// TestACacheDoesNotKeepWhatOthersRecorded: nobody knows how long the store
// still has it.
func TestACacheDoesNotKeepWhatOthersRecorded(t *testing.T) {
	store := newHooked()
	cache, other := newCache(t, store), newCache(t, store)
	execute(t, other, "k", "paid")
	wantRecord(t, cache, "k", "paid")
	wantRecord(t, cache, "k", "paid")
	wantAsked(t, store, 3)
	if s := cache.Stats(); s.Keys != 0 || s.Hits != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestACacheForgetsBeforeTheStore(t *testing.T) {
	for name, tt := range map[string]struct {
		retention time.Duration
		opts      []dedup.CacheOption
		kept      time.Duration
	}{
		"a short retention":          {10 * time.Millisecond, nil, 9 * time.Millisecond},
		"a longer retention":         {100 * time.Second, nil, 100*time.Second - 100*time.Millisecond},
		"longer than the cache's":    {time.Hour, nil, dedup.DefaultCacheTime},
		"the cache's own time":       {time.Hour, []dedup.CacheOption{dedup.WithCacheTime(time.Second)}, time.Second},
		"too short to be kept":       {time.Millisecond, nil, 0},
		"the longest that there are": {1<<63 - 1, []dedup.CacheOption{dedup.WithCacheTime(1<<63 - 1)}, 1 << 50},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newHooked()
				cache := newCache(t, store, tt.opts...)
				claim := ask(t, cache, request("k"), dedup.Claimed).Claim
				if err := claim.Complete(t.Context(), dedup.Completion{Retention: tt.retention}); err != nil {
					t.Fatal(err)
				}
				if tt.kept > 0 {
					time.Sleep(tt.kept - time.Nanosecond)
					ask(t, cache, request("k"), dedup.Completed)
					wantAsked(t, store, 1)
				}
				if tt.kept == 1<<50 {
					return
				}
				time.Sleep(time.Nanosecond)
				ask(t, cache, request("k"), dedup.Completed)
				wantAsked(t, store, 2)
				time.Sleep(tt.retention - tt.kept)
				ask(t, cache, request("k"), dedup.Claimed)
			})
		})
	}
}

// TestACacheCountsFromBeforeTheCompletionWasSent: the store's answer may have
// taken long.
func TestACacheCountsFromBeforeTheCompletionWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newHooked()
		store.onComplete = func(_ context.Context, _ dedup.Completion, next func() error) error {
			err := next()
			time.Sleep(30 * time.Minute)
			return err
		}
		cache := newCache(t, store, dedup.WithCacheTime(time.Hour))
		execute(t, cache, "k", "paid")
		time.Sleep(29 * time.Minute)
		wantRecord(t, cache, "k", "paid")
		wantAsked(t, store, 1)
		time.Sleep(time.Minute)
		ask(t, cache, request("k"), dedup.Claimed)
	})
}

// TestACacheKeepsNoUnclearCompletion: what a repeated completion is answered
// may be about the first one.
func TestACacheKeepsNoUnclearCompletion(t *testing.T) {
	store := newHooked()
	lost := errors.New("the reply was lost")
	store.onComplete = func(_ context.Context, _ dedup.Completion, next func() error) error {
		return errors.Join(next(), lost)
	}
	cache := newCache(t, store)
	claim := ask(t, cache, request("k"), dedup.Claimed).Claim
	if err := claim.Complete(t.Context(), completion("first")); !errors.Is(err, lost) {
		t.Fatal(err)
	}
	store.onComplete = nil
	if err := claim.Complete(t.Context(), completion("second")); err != nil {
		t.Fatal(err)
	}
	wantRecord(t, cache, "k", "first")
	if s := cache.Stats(); s.Keys != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestACacheKeepsTheFirstOfTwoCompletions(t *testing.T) {
	cache := newCache(t, dedup.NewMemory())
	claim := ask(t, cache, request("k"), dedup.Claimed).Claim
	for _, record := range []string{"first", "second"} {
		if err := claim.Complete(t.Context(), completion(record)); err != nil {
			t.Fatal(err)
		}
	}
	wantRecord(t, cache, "k", "first")
}

// TestACacheKeepsWhatIsRecordedAfterARefusal, which recorded nothing.
func TestACacheKeepsWhatIsRecordedAfterARefusal(t *testing.T) {
	for _, refusal := range []error{dedup.ErrFull, dedup.ErrTooLarge} {
		store := newHooked()
		store.onComplete = func(context.Context, dedup.Completion, func() error) error { return refusal }
		cache := newCache(t, store)
		claim := ask(t, cache, request("k"), dedup.Claimed).Claim
		if err := claim.Complete(t.Context(), completion("first")); !errors.Is(err, refusal) {
			t.Fatal(err)
		}
		if s := cache.Stats(); s.Keys != 0 {
			t.Errorf("%v: stats %+v", refusal, s)
		}
		store.onComplete = nil
		if err := claim.Complete(t.Context(), completion("second")); err != nil {
			t.Fatal(err)
		}
		wantRecord(t, cache, "k", "second")
		wantAsked(t, store, 1)
	}
}

func TestACacheKeepsARecordOfItsOwn(t *testing.T) {
	cache := newCache(t, dedup.NewMemory())
	claim := ask(t, cache, request("k"), dedup.Claimed).Claim
	done := completion("paid")
	if err := claim.Complete(t.Context(), done); err != nil {
		t.Fatal(err)
	}
	copy(done.Record, "lost")
	wantRecord(t, cache, "k", "paid")
}

func TestACacheIsBoundedByKeys(t *testing.T) {
	store := newHooked()
	cache := newCache(t, store, dedup.WithCacheKeys(3))
	for _, id := range []string{"a", "b", "c"} {
		execute(t, cache, id, id)
	}
	wantRecord(t, cache, "a", "a") // so that b was not asked for the longest
	execute(t, cache, "d", "d")
	wantAsked(t, store, 4)
	for _, id := range []string{"a", "c", "d"} {
		wantRecord(t, cache, id, id)
	}
	wantAsked(t, store, 4)
	wantRecord(t, cache, "b", "b")
	wantAsked(t, store, 5)
	if s := cache.Stats(); s.Keys != 3 {
		t.Errorf("stats %+v", s)
	}
}

func TestACacheIsBoundedByBytes(t *testing.T) {
	store := newHooked()
	record := strings.Repeat("x", 1000)
	key := debit("a").Key
	size := int64(len(key.Scope)+len(key.Method)+len(key.ID)) + 1000
	cache := newCache(t, store, dedup.WithCacheBytes(2*size))
	for _, id := range []string{"a", "b"} {
		execute(t, cache, id, record)
	}
	if s := cache.Stats(); s.Keys != 2 || s.Bytes != 2*size {
		t.Errorf("stats %+v, want 2 outcomes of %d bytes", s, size)
	}
	execute(t, cache, "c", record+"x")
	if s := cache.Stats(); s.Keys != 1 || s.Bytes != size+1 {
		t.Errorf("stats %+v after a larger one", s)
	}
	execute(t, cache, "d", strings.Repeat("x", int(2*size)))
	if s := cache.Stats(); s.Keys != 1 || s.Bytes != size+1 {
		t.Errorf("stats %+v after one that is too large", s)
	}
	wantRecord(t, cache, "c", record+"x")
	wantAsked(t, store, 4)
}

func TestACacheIsWhatItsStoreIs(t *testing.T) {
	for name, store := range map[string]dedup.Store{
		"waking":        dedup.NewMemory(),
		"mute":          mute{newHooked()},
		"transactional": newTransactional(),
		"a cache":       newCache(t, dedup.NewMemory()),
	} {
		cache := newCache(t, store)
		_, storeWakes := store.(dedup.Waiter)
		if _, wakes := cache.(dedup.Waiter); wakes != storeWakes {
			t.Errorf("%s: the cache is a Waiter: %v, its store is: %v", name, wakes, storeWakes)
		}
		if cache.Promise() != store.Promise() {
			t.Errorf("%s: promises %v, its store %v", name, cache.Promise(), store.Promise())
		}
	}
}

func TestACacheLeavesRefusalsToTheStore(t *testing.T) {
	cache := newCache(t, dedup.NewMemory())
	execute(t, cache, "k", "paid")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := cache.Claim(ended, request("k")); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
	short := request("k")
	short.Lease = time.Microsecond
	if _, err := cache.Claim(t.Context(), short); err == nil {
		t.Error("a lease that cannot be honoured: no error")
	}
	short = request("k")
	short.Retention = time.Microsecond
	if _, err := cache.Claim(t.Context(), short); err == nil {
		t.Error("a retention that cannot be honoured: no error")
	}
}

// TestACacheAnswersWhileTheStoreIsAway what it knows, and nothing else.
func TestACacheAnswersWhileTheStoreIsAway(t *testing.T) {
	store := newHooked()
	e := newEngine(t, newCache(t, store))
	fn, ran := counted(dedup.Outcome{})
	if _, err := e.Do(t.Context(), debit("known"), fn); err != nil {
		t.Fatal(err)
	}
	store.onClaim = func(context.Context, dedup.ClaimRequest, func() (dedup.Answer, error)) (dedup.Answer, error) {
		return dedup.Answer{}, errors.New("away")
	}
	if res, err := e.Do(t.Context(), debit("known"), fn); err != nil || !res.Replayed {
		t.Errorf("%+v, %v", res, err)
	}
	if _, err := e.Do(t.Context(), debit("new"), fn); !errors.Is(err, dedup.ErrStoreUnavailable) {
		t.Error(err)
	}
	if *ran != 1 {
		t.Errorf("executed %d times", *ran)
	}
}

// TestACacheWaitsForTheTransaction: what joined a transaction that was undone
// has not taken place.
func TestACacheWaitsForTheTransaction(t *testing.T) {
	undone := errors.New("undone")
	for _, want := range []error{nil, undone} {
		store := newTransactional()
		inner := newEngine(t, newCache(t, store))
		for name, outer := range map[string]*dedup.Engine{"the cache": inner, "the store": newEngine(t, store)} {
			_, err := outer.Do(t.Context(), debit("outer on "+name), func(ctx context.Context) (dedup.Outcome, error) {
				for i := range 2 {
					res, err := inner.Do(ctx, debit("inner "+name), answer)
					if err != nil || res.Replayed != (i > 0) {
						t.Errorf("inner call %d: %+v, %v", i, res, err)
					}
				}
				return dedup.Outcome{}, want
			})
			if !errors.Is(err, want) {
				t.Fatal(err)
			}
			res, err := inner.Do(t.Context(), debit("inner "+name), answer)
			if err != nil || res.Replayed != (want == nil) {
				t.Errorf("the outer one on %s ended with %v: inner %+v, %v", name, want, res, err)
			}
		}
	}
}

// TestACacheKnowsTransactionsWithoutAnEngine, and those of another cache.
func TestACacheKnowsTransactionsWithoutAnEngine(t *testing.T) {
	store := newTransactional()
	cache := newCache(t, store)
	for name, asked := range map[string]dedup.Store{"the same": cache, "another": newCache(t, store), "one on the other": newCache(t, cache)} {
		outer := ask(t, cache, request("outer "+name), dedup.Claimed).Claim
		ctx := outer.Context(t.Context())
		inner, err := asked.Claim(ctx, request("inner "+name))
		if err != nil || inner.State != dedup.Claimed {
			t.Fatal(inner.State, err)
		}
		if err := inner.Claim.Complete(ctx, completion("paid")); err != nil {
			t.Fatal(err)
		}
		if err := outer.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		ask(t, asked, request("inner "+name), dedup.Claimed)
	}
}

// TestEnginesShareAStoreThroughACache, so that an operation that asks for itself
// does not wait for itself.
func TestEnginesShareAStoreThroughACache(t *testing.T) {
	store := dedup.NewMemory()
	cache := newCache(t, store)
	engines := map[string]*dedup.Engine{
		"store": newEngine(t, store), "cache": newEngine(t, cache), "another cache": newEngine(t, newCache(t, store)),
		"a cache of the cache": newEngine(t, newCache(t, cache)),
	}
	for outer, e := range engines {
		for inner, f := range engines {
			_, err := e.Do(t.Context(), debit(outer+inner), func(ctx context.Context) (dedup.Outcome, error) {
				_, err := f.Do(ctx, debit(outer+inner), answer)
				return dedup.Outcome{}, err
			})
			if !errors.Is(err, dedup.ErrNested) {
				t.Errorf("%s within %s: %v", inner, outer, err)
			}
		}
	}
}

func TestACacheReportsAllMistakes(t *testing.T) {
	var none *dedup.Memory
	for _, store := range []dedup.Store{nil, none} {
		_, err := dedup.NewCache(store, dedup.WithCacheKeys(-1), dedup.WithCacheBytes(-2), nil, dedup.WithCacheTime(-3))
		for _, want := range []string{"NewCache: store is nil", "WithCacheKeys: -1", "WithCacheBytes: -2", "WithCacheTime: -3ns"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v does not say %q", err, want)
			}
		}
	}
}

// TestACacheUnderLoad: many ask for few operations in a cache that has room for
// half of them.
func TestACacheUnderLoad(t *testing.T) {
	cache := newCache(t, dedup.NewMemory(), dedup.WithCacheKeys(8))
	e := newEngine(t, cache)
	var executed [16]int // each by one
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for i := range 400 {
				n := i % len(executed)
				res, err := e.Do(t.Context(), debit(fmt.Sprint(n)), func(context.Context) (dedup.Outcome, error) {
					executed[n]++
					return dedup.Outcome{Message: fmt.Sprint(n)}, nil
				})
				if err != nil || res.Outcome.Message != fmt.Sprint(n) {
					t.Errorf("operation %d: %+v, %v", n, res, err)
				}
			}
		})
	}
	callers.Wait()
	for n, times := range executed {
		if times != 1 {
			t.Errorf("operation %d executed %d times", n, times)
		}
	}
	if s := cache.Stats(); s.Keys != 8 || s.Hits == 0 {
		t.Errorf("stats %+v", s)
	}
}
