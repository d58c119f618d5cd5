package dedup

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func request(id string) ClaimRequest {
	return ClaimRequest{Key: Key{Method: "m", ID: id}, Lease: time.Second, Retention: time.Minute}
}

func mustClaim(t *testing.T, m *Memory, req ClaimRequest) Claim {
	t.Helper()
	a, err := m.Claim(t.Context(), req)
	if err != nil || a.State != Claimed {
		t.Fatalf("claim: %v, %v", a.State, err)
	}
	return a.Claim
}

func mustBe(t *testing.T, m *Memory, req ClaimRequest, want State) Answer {
	t.Helper()
	a, err := m.Claim(t.Context(), req)
	if err != nil || a.State != want {
		t.Fatalf("claim: %v, %v; want %v", a.State, err, want)
	}
	return a
}

func TestMemoryIsFullByKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(WithMaxKeys(3))
		if err := mustClaim(t, m, request("completed")).Complete(t.Context(), Completion{Retention: time.Minute}); err != nil {
			t.Fatal(err)
		}
		mustClaim(t, m, request("live"))
		mustClaim(t, m, request("unsettled"))
		if _, err := m.Claim(t.Context(), request("new")); !errors.Is(err, ErrFull) {
			t.Errorf("full: %v", err)
		}
		time.Sleep(2 * time.Second)
		if _, err := m.Claim(t.Context(), request("new")); !errors.Is(err, ErrFull) {
			t.Errorf("full of what is not expired: %v", err)
		}
		mustBe(t, m, request("completed"), Completed)
		mustBe(t, m, request("unsettled"), Unknown)
		time.Sleep(58 * time.Second)
		mustClaim(t, m, request("new"))
		time.Sleep(time.Second)
		mustClaim(t, m, request("two"))
		mustClaim(t, m, request("three"))
		if n := m.Len(); n != 3 {
			t.Errorf("%d keys", n)
		}
	})
}

func TestMemoryIsFullByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(WithMaxBytes(100))
		c := mustClaim(t, m, request("a"))
		if err := c.Complete(t.Context(), Completion{Record: make([]byte, 101), Retention: time.Minute}); !errors.Is(err, ErrTooLarge) {
			t.Errorf("larger than all: %v", err)
		}
		d := mustClaim(t, m, request("d"))
		if err := d.Complete(t.Context(), Completion{Record: make([]byte, 90), Retention: time.Minute}); err != nil {
			t.Fatal(err)
		}
		if err := c.Complete(t.Context(), Completion{Record: make([]byte, 90), Retention: time.Minute}); !errors.Is(err, ErrFull) {
			t.Errorf("full: %v", err)
		}
		if _, err := m.Claim(t.Context(), request(strings.Repeat("x", 50))); !errors.Is(err, ErrFull) {
			t.Errorf("a key that is too long: %v", err)
		}
		if a := mustBe(t, m, request("d"), Completed); len(a.Record) != 90 {
			t.Errorf("a record of %d bytes", len(a.Record))
		}
		time.Sleep(time.Minute)
		if err := c.Complete(t.Context(), Completion{Record: make([]byte, 90), Retention: time.Minute}); err != nil {
			t.Errorf("once there is room: %v", err)
		}
	})
}

// TestMemoryCountsWhatItHas compares the counters with the entries after many
// changes, and the shards' order and chains with what they should be.
func TestMemoryCountsWhatItHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(WithMaxKeys(200), WithMaxBytes(20_000))
		rng := rand.New(rand.NewPCG(1, 2))
		var claims []Claim
		for range 20_000 {
			time.Sleep(time.Duration(rng.IntN(1000)) * time.Millisecond)
			req := request(fmt.Sprint("key", rng.IntN(1000)))
			req.Owner[0] = byte(rng.IntN(200))
			req.Takeover = rng.IntN(2) == 0
			req.Retention = time.Duration(1+rng.IntN(100)) * time.Second
			if a, err := m.Claim(t.Context(), req); err == nil && a.State == Claimed {
				claims = append(claims, a.Claim)
			} else if err != nil && !errors.Is(err, ErrFull) {
				t.Fatal(err)
			}
			if len(claims) > 20 {
				i := rng.IntN(len(claims))
				c := claims[i]
				claims = append(claims[:i], claims[i+1:]...)
				var err error
				switch rng.IntN(4) {
				case 0, 1:
					err = c.Complete(t.Context(), Completion{Record: make([]byte, rng.IntN(300)), Retention: req.Retention})
				case 2:
					err = c.Release(t.Context())
				case 3:
					err = c.Renew(t.Context(), req.Retention)
				}
				if err != nil && !errors.Is(err, ErrLeaseLost) && !errors.Is(err, ErrFull) {
					t.Fatal(err)
				}
			}
		}
		checkMemory(t, m)
		time.Sleep(time.Hour)
		for i := range 1000 {
			req := request(fmt.Sprint("end", i))
			req.Retention = time.Hour
			_, _ = m.Claim(t.Context(), req)
		}
		if n := m.Len(); n != 200 {
			t.Errorf("full of new keys: %d", n)
		}
		checkMemory(t, m)
	})
}

func checkMemory(t *testing.T, m *Memory) {
	t.Helper()
	keys, bytes := 0, 0
	for i := range m.shards {
		s := &m.shards[i]
		seen := map[slot]bool{}
		for at, n := range s.index {
			for ; n != noSlot; n = s.at(n).next {
				e := s.at(n)
				if place(e.hash) != at || seen[n] || s.order[e.place] != n {
					t.Fatalf("slot %d is out of place", n)
				}
				seen[n] = true
				bytes += len(e.block)
			}
		}
		keys += len(seen)
		if len(s.order) != len(seen) {
			t.Fatalf("%d in order, %d in the index", len(s.order), len(seen))
		}
		for i, n := range s.order {
			if i > 0 && s.at(n).expires < s.at(s.order[(i-1)/2]).expires {
				t.Fatal("the order is broken")
			}
		}
		if int(s.entries.used) < len(seen) || len(s.waits) > 0 {
			t.Fatal("slots or waits are left")
		}
	}
	if keys != int(m.keys.Load()) || bytes != int(m.bytes.Load()) {
		t.Fatalf("counted %d keys and %d bytes, there are %d and %d", m.keys.Load(), m.bytes.Load(), keys, bytes)
	}
}

func TestMemoryKeepsKeysOfOnePlaceApart(t *testing.T) {
	for name, hash := range map[string]func(id string) uint64{
		"one hash":       func(string) uint64 { return 7 },
		"half of a hash": func(id string) uint64 { return uint64(id[0])<<32 | 7 },
	} {
		t.Run(name, func(t *testing.T) { keepApart(t, hash) })
	}
}

func keepApart(t *testing.T, hash func(id string) uint64) {
	m := NewMemory()
	s := &m.shards[0]
	s.mu.Lock()
	defer s.mu.Unlock()
	claim := func(id string, now int64) State {
		req := request(id)
		req.Owner[0] = id[0]
		a, err := s.claim(hash(id), &req, now)
		if err != nil {
			t.Fatal(err)
		}
		return a.State
	}
	for _, id := range []string{"a", "b", "c"} {
		if st := claim(id, 1); st != Claimed {
			t.Fatalf("%s: %v", id, st)
		}
	}
	s.remove(s.find(hash("b"), Key{Method: "m", ID: "b"})) // amid the chain
	for id, want := range map[string]slot{"a": 1, "b": noSlot, "c": 3} {
		if n := s.find(hash(id), Key{Method: "m", ID: id}); n != want {
			t.Errorf("%s is in slot %d, want %d", id, n, want)
		}
	}
	s.remove(s.find(hash("c"), Key{Method: "m", ID: "c"})) // its head
	if claim("b", 1) != Claimed || claim("a", 2) != Claimed {
		t.Error("what was claimed by its owner is not its owner's")
	}
	if n := s.find(hash("a"), Key{Method: "m", ID: "a"}); n != 1 {
		t.Errorf("a is in slot %d", n)
	}
}

func TestMemoryForgetsWhatHasExpiredAsNewOnesCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory()
		for i := range 1000 {
			mustClaim(t, m, request(fmt.Sprint("old", i)))
		}
		time.Sleep(time.Hour)
		for i := range 1000 {
			mustClaim(t, m, request(fmt.Sprint("new", i)))
		}
		// Each claim removes more than it adds, in its own shard.
		if n := m.Len(); n > 1100 {
			t.Errorf("%d of 2000 are kept, and 1000 have expired", n)
		}
		checkMemory(t, m)
	})
}

func TestMemoryKeepsTheFenceRisingAfterItForgot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory()
		last := uint64(0)
		for range 5 {
			c := mustClaim(t, m, request("k"))
			if c.Fence() <= last || c.Attempt() != 1 {
				t.Errorf("fence %d after %d, attempt %d", c.Fence(), last, c.Attempt())
			}
			last = c.Fence()
			time.Sleep(2 * time.Minute)
		}
	})
}

func TestMemoryForgetsReleasedClaimsSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory()
		req := request("k")
		req.Retention = time.Hour
		for attempt := 1; attempt <= 3; attempt++ {
			c := mustClaim(t, m, req)
			if c.Attempt() != attempt {
				t.Errorf("attempt %d, want %d", c.Attempt(), attempt)
			}
			for range 2 { // a release may be repeated
				if err := c.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if err := c.Complete(t.Context(), Completion{Retention: time.Hour}); !errors.Is(err, ErrLeaseLost) {
				t.Errorf("completed after its release: %v", err)
			}
		}
		time.Sleep(time.Minute)
		if c := mustClaim(t, m, req); c.Attempt() != 1 {
			t.Errorf("attempt %d", c.Attempt())
		}
	})
}

func TestMemoryClaimsCannotBeSettledByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory()
		stale := mustClaim(t, m, request("k"))
		time.Sleep(time.Second)
		req := request("k")
		req.Owner, req.Takeover = Owner{2}, true
		fresh := mustClaim(t, m, req)
		ctx := t.Context()
		for name, err := range map[string]error{
			"complete": stale.Complete(ctx, Completion{Retention: time.Minute}),
			"renew":    stale.Renew(ctx, time.Minute),
			"release":  stale.Release(ctx),
		} {
			if !errors.Is(err, ErrLeaseLost) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for range 2 {
			if err := fresh.Complete(ctx, Completion{Retention: time.Minute}); err != nil {
				t.Error(err)
			}
		}
		if err := fresh.Renew(ctx, time.Minute); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("renewed after it was completed: %v", err)
		}
		if err := fresh.Release(ctx); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("released after it was completed: %v", err)
		}
		time.Sleep(time.Minute)
		mustClaim(t, m, request("other")) // in its slot, perhaps
		if err := fresh.Complete(ctx, Completion{Retention: time.Minute}); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("completed after its retention: %v", err)
		}
	})
}

func TestMemoryRefusesWhatItCannotHonour(t *testing.T) {
	m := NewMemory()
	for name, req := range map[string]ClaimRequest{
		"lease":     {Lease: time.Millisecond - 1, Retention: time.Second},
		"retention": {Lease: time.Second, Retention: time.Millisecond - 1},
	} {
		if _, err := m.Claim(t.Context(), req); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := mustClaim(t, m, request("k"))
	if c.Complete(t.Context(), Completion{}) == nil || c.Renew(t.Context(), 0) == nil ||
		c.Complete(t.Context(), Completion{Retention: time.Second, Undo: true}) == nil {
		t.Error("it took what it cannot honour")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := m.Claim(ctx, request("l"))
	for _, err := range []error{err, c.Complete(ctx, Completion{Retention: time.Second}), c.Renew(ctx, time.Second), c.Release(ctx)} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("under a cancelled context: %v", err)
		}
	}
	mustBe(t, m, ClaimRequest{Key: request("k").Key, Owner: Owner{9}, Lease: time.Second, Retention: time.Second}, InProgress)
}

func TestMemoryHonoursTheLongestTimes(t *testing.T) {
	m := NewMemory()
	req := request("k")
	req.Lease, req.Retention = math.MaxInt64, math.MaxInt64
	if err := mustClaim(t, m, req).Complete(t.Context(), Completion{Retention: math.MaxInt64}); err != nil {
		t.Fatal(err)
	}
	mustBe(t, m, req, Completed)
}

func TestMemoryWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory()
		key := request("k").Key
		wait := func(ctx context.Context) (time.Duration, error) {
			begin := time.Now()
			err := m.Wait(ctx, key)
			return time.Since(begin), err
		}
		if d, err := wait(t.Context()); err != nil || d > 0 {
			t.Errorf("nobody claimed it: %v after %v", err, d)
		}
		c := mustClaim(t, m, request("k"))
		time.AfterFunc(500*time.Millisecond, func() { _ = c.Renew(t.Context(), 3*time.Second) })
		if d, err := wait(t.Context()); err != nil || d != 3500*time.Millisecond {
			t.Errorf("to the end of a lease that was renewed: %v after %v", err, d)
		}
		if d, err := wait(t.Context()); err != nil || d > 0 {
			t.Errorf("after the lease: %v after %v", err, d)
		}
		req := request("k")
		req.Owner, req.Takeover = Owner{2}, true
		c = mustClaim(t, m, req)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if d, err := wait(ctx); !errors.Is(err, context.DeadlineExceeded) || d != time.Millisecond {
			t.Errorf("in a hurry: %v after %v", err, d)
		}
		for i := range m.shards {
			if n := len(m.shards[i].waits); n > 0 {
				t.Errorf("%d are still waited for, by nobody", n)
			}
		}
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if d, err := wait(t.Context()); err != nil || d != 100*time.Millisecond {
					t.Errorf("until it is released: %v after %v", err, d)
				}
			})
		}
		time.Sleep(100 * time.Millisecond)
		if err := c.Release(t.Context()); err != nil {
			t.Error(err)
		}
		wg.Wait()
		checkMemory(t, m)
	})
}

func TestMemoryOf64ClaimersOneWins(t *testing.T) {
	m := NewMemory()
	var wg sync.WaitGroup
	won := make(chan Claim, 64)
	for i := range 64 {
		wg.Go(func() {
			req := request("k")
			req.Owner[0] = byte(i)
			if a, err := m.Claim(t.Context(), req); err != nil {
				t.Error(err)
			} else if a.State == Claimed {
				won <- a.Claim
			}
		})
	}
	wg.Wait()
	if len(won) != 1 {
		t.Errorf("%d have won", len(won))
	}
}

func TestMemoryEntriesArePacked(t *testing.T) {
	if size := reflect.TypeFor[memoryEntry]().Size(); size > 128 {
		t.Errorf("an entry has %d bytes", size)
	}
}
