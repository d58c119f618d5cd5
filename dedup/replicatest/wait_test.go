package replicatest

import (
	"context"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
)

const (
	// Stores look for themselves, without being woken, after half a second at
	// the earliest while they listen, and after a tenth at the latest while they
	// do not.
	earliestPoll = 500 * time.Millisecond
	deafPoll     = 100 * time.Millisecond
)

// TestADuplicateAtAnotherReplicaIsWokenWithTheFirstsOutcome: it is proved by
// counting that the duplicate did not poll. On a slow machine that can need more
// than one try; that nothing is executed twice must hold in each.
func TestADuplicateAtAnotherReplicaIsWokenWithTheFirstsOutcome(t *testing.T) {
	forEach(t, all, func(t *testing.T, s storage) {
		first, second := s.replica(t, "first"), s.replica(t, "second")
		eventually(t, "the duplicate is woken", func() bool { return woken(t, first, second) })
	})
}

func woken(t *testing.T, first, second *replica) bool {
	t.Helper()
	op := newOperation()
	executing, finish := make(chan struct{}), make(chan struct{})
	one := first.background(op, func(context.Context) {
		close(executing)
		<-finish
	})
	<-executing

	claims, waits := second.spy.claims.Load(), second.spy.waits.Load()
	other := second.background(op)
	began := time.Now()
	eventually(t, "the duplicate waits", func() bool {
		if first.storage.Kind.transactional() { // it waits in its claim
			return second.spy.claims.Load() > claims
		}
		return second.spy.waits.Load() > waits
	})
	time.Sleep(deafPoll + deafPoll/2) // one that polls has looked again
	close(finish)
	first.wantExecuted(<-one)
	a := <-other
	polled := time.Since(began) > earliestPoll
	second.wantReplayed(a, "first")
	if !a.Waited && !first.storage.Kind.transactional() { // an engine does not see a wait in a claim
		t.Error("the duplicate did not wait")
	}
	first.storage.wantEffects(t, op, "first")
	claims, waits = second.spy.claims.Load()-claims, second.spy.waits.Load()-waits
	if first.storage.Kind.transactional() {
		return claims == 1 && !polled
	}
	return claims == 2 && waits == 1 && !polled
}

// TestALiveReplicaKeepsItsClaimForLongerThanItsLease, because it renews it.
func TestALiveReplicaKeepsItsClaimForLongerThanItsLease(t *testing.T) {
	forEach(t, all, func(t *testing.T, s storage) {
		const lease = 3 * time.Second
		first, second := s.replica(t, "first", dedup.WithLease(lease)), s.replica(t, "second", dedup.WithLease(lease))
		op := newOperation()
		executing := make(chan struct{})
		one := first.background(op, func(ctx context.Context) {
			close(executing)
			time.Sleep(lease + lease/2)
			if err := ctx.Err(); err != nil {
				t.Errorf("the handler's context: %v", err)
			}
		})
		<-executing
		second.wantReplayed(second.do(op), "first")
		first.wantExecuted(<-one)
		s.wantEffects(t, op, "first")
	})
}
