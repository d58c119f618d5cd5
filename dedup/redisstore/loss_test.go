package redisstore_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/redisstore"
	"github.com/retrysafe/retrysafe/internal/testserver"
)

var errLost = errors.New("the reply was lost")

// lossy is a client that loses the reply to a command that Redis has carried
// out.
type lossy struct {
	redis.UniversalClient
	in atomic.Int64 // 1: to the next command, 2: to the one after it, ...
}

func (c *lossy) lose() bool { return c.in.Add(-1) == 0 }

func (c *lossy) SetArgs(ctx context.Context, key string, value any, a redis.SetArgs) *redis.StatusCmd {
	cmd := c.UniversalClient.SetArgs(ctx, key, value, a)
	if c.lose() {
		cmd.SetErr(errLost)
	}
	return cmd
}

func (c *lossy) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	cmd := c.UniversalClient.EvalSha(ctx, sha, keys, args...)
	if !redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") && c.lose() {
		cmd.SetErr(errLost)
	}
	return cmd
}

func (c *lossy) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	cmd := c.UniversalClient.Eval(ctx, script, keys, args...)
	if c.lose() {
		cmd.SetErr(errLost)
	}
	return cmd
}

func newLossy(t *testing.T) (*lossy, *redisstore.Store) {
	client := &lossy{UniversalClient: newClient(t, testserver.Redis(t))}
	return client, newStore(t, client, redisstore.WithPrefix(newPrefix()))
}

func wantLost(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, errLost) {
		t.Fatalf("error %v, want the lost reply", err)
	}
}

func TestAFirstClaimWhoseReplyWasLostRecognisesItself(t *testing.T) {
	client, store := newLossy(t)
	req := request()
	client.in.Store(1)
	_, err := store.Claim(t.Context(), req)
	wantLost(t, err)
	wantState(t, ask(t, store, again(req)), dedup.InProgress)
	c := claim(t, store, req)
	if c.Attempt() != 1 {
		t.Errorf("attempt %d, want 1", c.Attempt())
	}
	must(t, c.Complete(t.Context(), completion("paid")))
}

func TestATakeoverWhoseReplyWasLostRecognisesItself(t *testing.T) {
	client, store := newLossy(t)
	req := request()
	first := claim(t, store, req)
	must(t, first.Release(t.Context()))
	next := again(req)
	client.in.Store(2) // to what was found, then to the takeover
	_, err := store.Claim(t.Context(), next)
	wantLost(t, err)
	wantState(t, ask(t, store, again(req)), dedup.InProgress)
	c := claim(t, store, next)
	if c.Attempt() != 2 || c.Fence() <= first.Fence() {
		t.Errorf("attempt %d and fence %d after fence %d, want 2 and a higher one", c.Attempt(), c.Fence(), first.Fence())
	}
}

func TestASettlementWhoseReplyWasLostCanBeRepeated(t *testing.T) {
	client, store := newLossy(t)
	for _, settle := range []func(dedup.Claim) error{
		func(c dedup.Claim) error { return c.Complete(t.Context(), completion("paid")) },
		func(c dedup.Claim) error { return c.Release(t.Context()) },
		func(c dedup.Claim) error { return c.Renew(t.Context(), time.Minute) },
	} {
		c := claim(t, store, request())
		client.in.Store(1)
		wantLost(t, settle(c))
		must(t, settle(c))
	}
}

func TestScriptsThatTheServerForgotAreSentAgain(t *testing.T) {
	server := testserver.StartRedis(t)
	client := newClient(t, server.URL())
	store := newStore(t, client)
	req := request()
	c := claim(t, store, req)
	for _, step := range []func() error{
		func() error { return c.Renew(t.Context(), time.Minute) },
		func() error { wantState(t, ask(t, store, again(req)), dedup.InProgress); return nil },
		func() error { return c.Complete(t.Context(), completion("paid")) },
	} {
		must(t, client.ScriptFlush(t.Context()).Err())
		must(t, step())
	}
	wantRecord(t, store, req, "paid")
}

// A failover to a master that had not heard of a claim looks like this.
func TestALostClaimIsNoticedByItsOwnerAndFencesStillRise(t *testing.T) {
	server := testserver.StartRedis(t)
	client := newClient(t, server.URL())
	store := newStore(t, client)
	req := request()
	lost := claim(t, store, req)
	must(t, client.FlushAll(t.Context()).Err())

	if err := lost.Renew(t.Context(), time.Minute); !errors.Is(err, dedup.ErrLeaseLost) {
		t.Errorf("Renew: error %v, want ErrLeaseLost", err)
	}
	second := claim(t, store, again(req))
	if second.Fence() <= lost.Fence() {
		t.Errorf("fence %d after fence %d", second.Fence(), lost.Fence())
	}
	if err := lost.Complete(t.Context(), completion("stale")); !errors.Is(err, dedup.ErrLeaseLost) {
		t.Errorf("Complete: error %v, want ErrLeaseLost", err)
	}
	must(t, second.Complete(t.Context(), completion("paid")))
	wantRecord(t, store, req, "paid")
}

func TestWithTheAppendOnlyFileACrashLosesNothing(t *testing.T) {
	server := testserver.StartRedis(t, "appendonly yes", "appendfsync always")
	store := newStore(t, newClient(t, server.URL()))
	done, held, given := request(), request(), request()
	must(t, claim(t, store, done).Complete(t.Context(), completion("paid")))
	c := claim(t, store, held)
	releasedClaim := claim(t, store, given)
	must(t, releasedClaim.Release(t.Context()))

	must(t, server.Kill())
	if _, err := store.Claim(t.Context(), request()); err == nil {
		t.Fatal("a server that is gone gave a claim")
	}
	must(t, server.Start())

	wantRecord(t, store, done, "paid")
	answer := ask(t, store, again(held))
	wantState(t, answer, dedup.InProgress)
	if answer.LeaseLeft <= 0 || answer.LeaseLeft > held.Lease {
		t.Errorf("%v of a lease of %v is left", answer.LeaseLeft, held.Lease)
	}
	must(t, c.Complete(t.Context(), completion("late")))
	wantRecord(t, store, held, "late")
	if next := claim(t, store, again(given)); next.Fence() <= releasedClaim.Fence() || next.Attempt() != 2 {
		t.Errorf("fence %d and attempt %d after fence %d, want a higher one and 2",
			next.Fence(), next.Attempt(), releasedClaim.Fence())
	}
}
