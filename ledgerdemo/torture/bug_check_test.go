package torture

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/retrysafe/retrysafe/interceptor/retry"
	"github.com/retrysafe/retrysafe/internal/testserver"
)

func TestTheHistoryOfAServerWithABugIsFound(t *testing.T) {
	tests := []struct {
		bug bug
		at  step // where the server dies
	}{
		{noDedup, responseReady},
		{recordApart, beforeComplete},
	}
	for _, k := range []kind{onSQLite, onPostgres} {
		for _, tt := range tests {
			t.Run(fmt.Sprintf("%s/%s", k, tt.bug), func(t *testing.T) {
				t.Parallel()
				w := debitAndDie(t, k, tt.bug, tt.at)
				if found := violations(exactlyOnceModel, byAccount, w.history); len(found) == 0 {
					t.Errorf("no violation in\n%s", describe(w.history))
				}
				if n := w.executions()[w.history[1].key]; n != 2 {
					t.Errorf("the debit stands in the ledger %d times", n)
				}
			})
			t.Run(fmt.Sprintf("%s/sound, dies %s", k, tt.at), func(t *testing.T) {
				t.Parallel()
				w := debitAndDie(t, k, noBug, tt.at)
				for _, violation := range w.findExactlyOnce() {
					t.Error(violation)
				}
			})
		}
	}
}

// bare is a world without wires and faults.
func bare(t *testing.T, r *rig) *world {
	w := &world{rig: r, name: t.Name(), secret: strings.ToLower(rand.Text()), started: time.Now()}
	w.openAccounts(0, w.secret)
	return w
}

// bareDial connects a client that goes on until it is answered.
func bareDial(t *testing.T, addr string) *grpc.ClientConn {
	return dial(t, retry.Policy{
		MaxAttempts: 1000,
		Backoff:     retry.Backoff{Base: 10 * time.Millisecond, Cap: 100 * time.Millisecond},
	}, addr)
}

// debitAndDie credits and debits an account of a server that dies in the
// debit.
func debitAndDie(t *testing.T, k kind, b bug, at step) *world {
	w := bare(t, newRig(t, k, b))
	s := newSlot(t, t.Output(), func(n int) config {
		c := w.config
		if n == 0 {
			c.Plan = plan{Step: at, Nth: 2}
		}
		return c
	})
	s.start()
	w.conn = bareDial(t, s.addr())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, in := range []input{w.movement(w.secret, 0), w.movement(w.secret, 1), {account: w.secret}} {
		if out := w.call(ctx, 0, in); out.kind != done {
			t.Fatalf("%+v was answered %+v: %v", in, out, *w.lastUntold.Load())
		}
	}
	return w
}

func TestTheHistoryOfAStoreWithoutFencesIsFound(t *testing.T) {
	for _, k := range []kind{leasedPostgres, leasedRedis} {
		for _, b := range []bug{noBug, noFence} {
			t.Run(fmt.Sprintf("%s/%s", k, b), func(t *testing.T) {
				t.Parallel()
				var servers []*testserver.Server
				if k == leasedRedis {
					servers = append(servers, testserver.StartRedis(t))
				}
				w := bare(t, newRig(t, k, b, servers...))
				w.overtake(t)
				found := violations(oneAnswerModel, byKey, w.history)
				if (len(found) > 0) != (b == noFence) {
					t.Errorf("found %q in\n%s", found, describe(w.history))
				}
			})
		}
	}
}

// overtake lets a server execute a credit that another has executed and was
// frozen before it could record it, and then lets that one go on.
func (w *world) overtake(t *testing.T) {
	reached := make(chan struct{})
	slow := newSlot(t, t.Output(), func(int) config {
		c := w.config
		c.Plan = plan{Step: handlerEnds, Nth: 1, Freeze: true}
		return c
	})
	slow.reached = func(plan) { close(reached) }
	slow.thaw, slow.frozen = make(chan struct{}), patience
	quick := newSlot(t, t.Output(), func(int) config { return w.config })
	slow.start()
	quick.start()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	in := w.movement(w.secret, 0)
	other := &world{rig: w.rig, started: w.started, conn: bareDial(t, slow.addr())}
	var waiting sync.WaitGroup
	waiting.Go(func() { other.call(ctx, 1, in) })
	select {
	case <-reached:
	case <-ctx.Done():
		t.Fatal("the slow server was not reached")
	}
	w.conn = bareDial(t, quick.addr())
	w.call(ctx, 0, in) // executes it when the lease has ended
	w.call(ctx, 0, in)
	close(slow.thaw)
	waiting.Wait()
	w.call(ctx, 0, in)
	w.history = append(w.history, other.history...)
	for _, c := range w.history {
		if c.kind != done {
			t.Fatalf("not all was answered:\n%s", describe(w.history))
		}
	}
}

func TestTheWatchFindsSecrets(t *testing.T) {
	for _, text := range []string{"the secret", "sec|ret", "s|e|c|r|e|t", "secret|", "|secret and more"} {
		w := &watch{secret: []byte("secret")}
		for _, part := range strings.Split(text, "|") {
			_, _ = w.Write([]byte(part))
		}
		if found, _, _ := w.report(); found != 1 {
			t.Errorf("%q: found %d", text, found)
		}
	}
	w := &watch{secret: []byte("secret")}
	_, _ = w.Write([]byte("secre"))
	_, _ = w.Write([]byte("cret"))
	if found, _, _ := w.report(); found != 0 {
		t.Errorf("found %d where there is none", found)
	}
}
