package replicatest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
)

// TestCompetingReplicasExecuteEachOperationOnce: three processes ask for the same
// operations, four callers each.
func TestCompetingReplicasExecuteEachOperationOnce(t *testing.T) {
	forEach(t, all, func(t *testing.T, s storage) {
		id := newOperation().Key.ID
		var replicas []*process
		for _, name := range []string{"first", "second", "third"} {
			replicas = append(replicas, job{Storage: s, Do: "compete", Name: name, ID: id, Lease: time.Minute}.start(t))
		}
		for _, p := range replicas {
			p.wantDone()
		}
		markers, err := s.effects(bounded(t))
		must(t, err)
		times := map[string]int{}
		for _, marker := range markers {
			var op, who string
			_, err := fmt.Sscan(marker, &op, &who)
			must(t, err)
			times[op]++
		}
		for i := range competed {
			if n := times[fmt.Sprintf("%s-%d", id, i)]; n != 1 {
				t.Errorf("operation %d took effect %d times", i, n)
			}
		}
	})
}

// TestAKilledReplicasTransactionIsGoneAtOnce, with all that its handler wrote:
// there is no lease to wait for, though it is an hour long.
func TestAKilledReplicasTransactionIsGoneAtOnce(t *testing.T) {
	forEach(t, transactional, func(t *testing.T, s storage) {
		second := s.replica(t, "second", dedup.WithLease(time.Hour))
		op := newOperation()
		first := job{Storage: s, Do: "die", Name: "first", ID: op.Key.ID, Lease: time.Hour}.start(t)
		first.executing()
		first.wantKilled()

		a := second.do(op)
		second.wantExecuted(a)
		if a.attempt != 1 {
			t.Errorf("attempt %d; of one that was rolled back nothing is known", a.attempt)
		}
		s.wantEffects(t, op, "second")
		third := s.replica(t, "third")
		third.wantReplayed(third.do(op), "second")
	})
}

// leaseOfTheDead is short enough to wait for.
const leaseOfTheDead = time.Second

// TestAKilledReplicasClaimIsTakenOverAfterItsLease and not before. Its effect
// stands, because it is elsewhere: the second execution has a higher fence.
func TestAKilledReplicasClaimIsTakenOverAfterItsLease(t *testing.T) {
	forEach(t, leased, func(t *testing.T, s storage) {
		second := s.replica(t, "second")
		op := newOperation()
		first := job{Storage: s, Do: "die", Name: "first", ID: op.Key.ID, Lease: leaseOfTheDead}.start(t)
		asked, fence := first.executing()
		first.wantKilled()

		a := second.do(op)
		second.wantExecuted(a)
		// Both processes are on one machine, and so is the server.
		if early := leaseOfTheDead - a.began.Sub(asked); early > 10*time.Millisecond {
			t.Errorf("taken over %v before the end of the lease", early)
		}
		if a.attempt != 2 || a.fence <= fence {
			t.Errorf("attempt %d with fence %d; want the second attempt, with one above %d", a.attempt, a.fence, fence)
		}
		s.wantEffects(t, op, "first", "second")
		third := s.replica(t, "third")
		third.wantReplayed(third.do(op), "second")
	})
}

// TestAKilledReplicasOperationIsNotExecutedAgainWhereThatIsForbidden.
func TestAKilledReplicasOperationIsNotExecutedAgainWhereThatIsForbidden(t *testing.T) {
	forEach(t, leased, func(t *testing.T, s storage) {
		second := s.replica(t, "second")
		op := newOperation()
		op.OnUnknown = dedup.Reject
		first := job{Storage: s, Do: "die", Name: "first", ID: op.Key.ID, Lease: leaseOfTheDead}.start(t)
		asked, _ := first.executing()
		first.wantKilled()

		a := second.do(op)
		if !errors.Is(a.err, dedup.ErrOutcomeUnknown) {
			t.Errorf("%+v, %v; want ErrOutcomeUnknown", a.Result, a.err)
		}
		if early := leaseOfTheDead - time.Since(asked); early > 10*time.Millisecond {
			t.Errorf("answered %v before the end of the lease", early)
		}
		s.wantEffects(t, op, "first")
	})
}
