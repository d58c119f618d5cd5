package replicatest

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
)

// TestAReplicaThatOutsleptItsLeaseChangesNothing: it was stopped in its handler,
// as by a long pause of its machine. Another has executed the operation
// meanwhile, and that one's outcome is what counts.
func TestAReplicaThatOutsleptItsLeaseChangesNothing(t *testing.T) {
	forEach(t, leased, func(t *testing.T, s storage) {
		second := s.replica(t, "second")
		op := newOperation()
		first := job{Storage: s, Do: "hold", Name: "first", ID: op.Key.ID, Lease: leaseOfTheDead}.start(t)
		_, fence := first.executing()
		first.signal(syscall.SIGSTOP)

		a := second.do(op)
		second.wantExecuted(a)
		if a.fence <= fence {
			t.Errorf("fence %d, want one above %d", a.fence, fence)
		}
		first.signal(syscall.SIGCONT)
		if cause := first.line("ended:"); cause != dedup.ErrLeaseLost.Error() {
			t.Errorf("its handler was told %q", cause)
		}
		first.goOn()
		// Its effect stands, so its caller gets its outcome.
		if got := first.line("answered"); got != "first replayed false unrecorded true error <nil>" {
			t.Errorf("it was answered %q", got)
		}
		first.wantDone()
		s.wantEffects(t, op, "first", "second")
		third := s.replica(t, "third")
		third.wantReplayed(third.do(op), "second")
	})
}

// TestAStoppedReplicaKeepsItsTransaction: as long as it may still commit, nobody
// else executes. The answer says that it is in progress, or, from SQLite, that
// the one writer is busy.
func TestAStoppedReplicaKeepsItsTransaction(t *testing.T) {
	forEach(t, transactional, func(t *testing.T, s storage) {
		hasty := s.replica(t, "hasty", dedup.WithWait(300*time.Millisecond), dedup.WithStoreTimeout(300*time.Millisecond))
		op := newOperation()
		first := job{Storage: s, Do: "hold", Name: "first", ID: op.Key.ID, Lease: time.Millisecond}.start(t)
		first.executing()
		first.signal(syscall.SIGSTOP)

		a := hasty.do(op)
		inProgress, busy := errors.Is(a.err, dedup.ErrInProgress), errors.Is(a.err, dedup.ErrStoreUnavailable)
		if a.executed() || !inProgress && !(s.Kind == sqlite && busy) {
			t.Errorf("while another holds it: %+v, %v", a.Result, a.err)
		}
		if s.Kind == postgres {
			other := newOperation()
			hasty.wantExecuted(hasty.do(other))
		}
		first.signal(syscall.SIGCONT)
		first.goOn()
		if got := first.line("answered"); !strings.HasPrefix(got, "first replayed false unrecorded false") {
			t.Errorf("it was answered %q", got)
		}
		first.wantDone()
		s.wantEffects(t, op, "first")
		second := s.replica(t, "second")
		second.wantReplayed(second.do(op), "first")
	})
}
