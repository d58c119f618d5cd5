package torture

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/retrysafe/retrysafe/gen/ledger/v1"
	"github.com/retrysafe/retrysafe/interceptor/retry"
)

// left is what a server that died at a step has left behind, where the
// handler's writes are a transaction of their own.
type left int

const (
	nothing      left = iota // no claim, no effect
	aClaim                   // a claim that nobody will settle, no effect
	anEffect                 // the claim, and the debit
	theOutcome               // the outcome and the debit
	maybeAnswer              // as theOutcome, and perhaps the answer on its way
	numberOfLeft = iota
)

// leftAt says it of every step.
func leftAt(at step) left {
	switch at {
	case requestReceived, beforeClaim, afterRelease:
		return nothing
	case writesDone, handlerEnds, beforeComplete:
		return anEffect
	case afterComplete, responseReady:
		return theOutcome
	case responseSent:
		return maybeAnswer
	}
	return aClaim
}

// verdict is what must come of a debit whose server died.
type verdict struct {
	code     codes.Code
	debits   int
	replayed []bool // what the answer may be
}

var (
	anew     = verdict{codes.OK, 1, []bool{false}}
	again    = verdict{codes.OK, 1, []bool{true}}
	answered = verdict{codes.OK, 1, []bool{true, false}}
)

// The promise at each step, by what is left.
var (
	// exactlyOnce: the debit and its outcome are one transaction, so without the
	// outcome there is no debit either.
	exactlyOnce = [numberOfLeft]verdict{anew, anew, anew, again, answered}
	// reexecute: a claim that nobody settled is taken over after its lease. A
	// crash between debit and outcome debits twice.
	reexecute = [numberOfLeft]verdict{anew, anew, {codes.OK, 2, []bool{false}}, again, answered}
	// reject: it is not executed again, so nobody is told of success, and there
	// is one debit or none.
	reject = [numberOfLeft]verdict{anew, {codes.Aborted, 0, []bool{false}}, {codes.Aborted, 1, []bool{false}}, again, answered}
)

// crashSteps are the steps of the table. A lease is a leased store's alone.
func crashSteps(k kind) []step {
	all := append(steps(), beforeRelease, afterRelease)
	if !k.transactional() {
		all = append(all, beforeRenew, afterRenew)
	}
	return all
}

func TestACrashAtAnyStepLeavesOneDebit(t *testing.T) {
	for _, k := range []kind{onSQLite, onPostgres} {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, k, noBug)
			for _, at := range crashSteps(k) {
				t.Run(string(at), func(t *testing.T) { crash(t, r, exactlyOnce[leftAt(at)], at) })
			}
		})
	}
}

func TestACrashAtAnyStepOfALeasedStoreLeavesWhatItDocuments(t *testing.T) {
	policies := []struct {
		name   string
		strict bool
		want   [numberOfLeft]verdict
	}{
		{"reexecute", false, reexecute},
		{"reject", true, reject},
	}
	for _, k := range []kind{leasedPostgres, leasedRedis} {
		for _, p := range policies {
			t.Run(fmt.Sprintf("%s/%s", k, p.name), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, k, noBug)
				if p.strict {
					r.strict()
				}
				for _, at := range crashSteps(k) {
					t.Run(string(at), func(t *testing.T) { crash(t, r, p.want[leftAt(at)], at) })
				}
			})
		}
	}
}

func TestTwoCrashesLeaveOneDebit(t *testing.T) {
	firsts := []step{afterClaim, statement(statements), beforeComplete}
	seconds := []step{beforeClaim, afterClaim, beforeComplete, afterComplete}
	if *allPairs {
		firsts, seconds = steps(), steps()
	}
	for _, k := range []kind{onSQLite, onPostgres} {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, k, noBug)
			for _, first := range firsts {
				for _, second := range seconds {
					want := answered
					if leftAt(first) < theOutcome {
						want = exactlyOnce[leftAt(second)]
					}
					t.Run(fmt.Sprintf("%s, %s", first, second), func(t *testing.T) { crash(t, r, want, first, second) })
				}
			}
		})
	}
}

// crash debits an account once, by a client that retries, from servers of
// which each dies at its step, but for the last, which has none.
func crash(t *testing.T, r *rig, want verdict, at ...step) {
	const opening, amount = 1000, 300
	account := strings.ToLower(rand.Text())
	r.openAccounts(opening, account)
	s := newSlot(t, t.Output(), func(n int) config {
		c := r.config
		if n < len(at) {
			c.Plan = plan{Step: at[n], Nth: 1}
		}
		return c
	})
	s.start()
	conn := dial(t, retry.Policy{
		MaxAttempts: 1000,
		Backoff:     retry.Backoff{Base: 10 * time.Millisecond, Cap: 100 * time.Millisecond},
	}, s.addr())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	key := "key-" + account
	req := &ledgerv1.DebitRequest{AccountId: account, Amount: eur(amount), Reference: key}

	got := invoke(ctx, conn, r.debit, key, req)
	if status.Code(got.err) != want.code || !slices.Contains(want.replayed, got.replayed) {
		t.Errorf("answered %v, replayed %v, want %v, %v", got.err, got.replayed, want.code, want.replayed)
	}
	if d := awaitDeath(t, s); d.signal != syscall.SIGKILL || !d.reached {
		t.Errorf("the server ended by signal %v; step reached: %v", d.signal, d.reached)
	}
	entries := r.standing(key)
	if len(entries) != want.debits {
		t.Errorf("%d debits stand in the ledger, want %d", len(entries), want.debits)
	}
	if balance := r.balance(account); balance != opening-int64(want.debits)*amount {
		t.Errorf("the account holds %d after %d debits", balance, want.debits)
	}
	if want.code == codes.OK && (len(entries) == 0 || entries[len(entries)-1] != got.entry.GetEntryId()) {
		t.Errorf("answered with the entry %d, the ledger has %v", got.entry.GetEntryId(), entries)
	}
	repeat(t, ctx, conn, r, key, req, got)
	if now := r.standing(key); !slices.Equal(now, entries) {
		t.Errorf("a repeat made of the entries %v %v", entries, now)
	}
}

// repeat checks that a repeat of a debit is answered as the debit was.
func repeat(t *testing.T, ctx context.Context, conn *grpc.ClientConn, r *rig, key string, req *ledgerv1.DebitRequest, first answer) {
	t.Helper()
	got := invoke(ctx, conn, r.debit, key, req)
	if status.Code(got.err) != status.Code(first.err) || !proto.Equal(got.entry, first.entry) {
		t.Errorf("a repeat was answered %v, %v; the debit %v, %v", got.entry, got.err, first.entry, first.err)
	}
	if got.err == nil && !got.replayed {
		t.Error("a repeat was not marked as one")
	}
}

// awaitDeath returns how the first server ended, when it has. A server that
// dies with its answer on the way does so after its client goes on.
func awaitDeath(t *testing.T, s *slot) death {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if ends := s.ends(); len(ends) > 0 {
			return ends[0]
		}
	}
	t.Fatal("the server did not die")
	return death{}
}
