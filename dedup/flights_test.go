package dedup

import (
	"context"
	"testing"
	"time"
)

// TestAWaiterThatIsGonePassesTheLeadOn has the lead come to a waiter whose
// caller has gone: it may find either first.
func TestAWaiterThatIsGonePassesTheLeadOn(t *testing.T) {
	e, err := NewEngine(NewMemory())
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	op := Operation{Key: Key{ID: "k"}}
	passed := 0
	for range 100 {
		f, _, _ := e.flights.join(&op, new(flight))
		_, first, _ := e.flights.join(&op, nil)
		_, second, _ := e.flights.join(&op, nil)
		e.flights.land(f, verdict{})
		c := call{engine: e, op: op, flight: f, waitUntil: time.Now().Add(time.Hour)}
		if v, err := c.await(gone, first); err == nil {
			if !v.lead {
				t.Fatalf("%+v", v)
			}
			e.flights.land(f, verdict{})
		} else {
			passed++
		}
		if v := <-second.verdict; !v.lead {
			t.Fatalf("%+v", v)
		}
		e.flights.dismiss()
		e.flights.land(f, verdict{})
	}
	if passed == 0 || passed == 100 {
		t.Errorf("passed on %d times of 100", passed)
	}
	for i := range e.flights.shards {
		if n := len(e.flights.shards[i].byKey); n > 0 {
			t.Errorf("%d flights are left", n)
		}
	}
	if n := e.flights.waiting.Load(); n != 0 {
		t.Errorf("%d wait", n)
	}
}
