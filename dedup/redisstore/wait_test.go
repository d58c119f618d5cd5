package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/redisstore"
	"github.com/retrysafe/retrysafe/internal/testserver"
)

// listeners returns how many connections of the server listen.
func listeners(ctx context.Context, t *testing.T, client *redis.Client) int64 {
	t.Helper()
	n, err := client.PubSubNumSub(ctx, redisstore.DefaultPrefix+"wake").Result()
	must(t, err)
	return n[redisstore.DefaultPrefix+"wake"]
}

// awaitListener returns when the store listens. It has to be waited for once
// before.
func awaitListener(t *testing.T, client *redis.Client, store *redisstore.Store, key dedup.Key) {
	t.Helper()
	must(t, store.Wait(t.Context(), key))
	eventually(t, "the store listens", func(ctx context.Context) bool { return listeners(ctx, t, client) == 1 })
}

func testWakeUp(t *testing.T, newStore func(*testing.T, string) *redisstore.Store) {
	server := testserver.StartRedis(t)
	client := newClient(t, server.URL())
	executor, waiter := newStore(t, server.URL()), newStore(t, server.URL())
	awaitListener(t, client, waiter, request().Key)
	// A message wakes in less than half a second, a poll does not. A loaded
	// machine may be slow now and then, not always.
	for range 10 {
		req := request()
		c := claim(t, executor, req)
		woken := make(chan error, 1)
		go func() { woken <- waiter.Wait(t.Context(), req.Key) }()
		eventually(t, "the operation is marked as waited for", func(ctx context.Context) bool {
			return len(client.Keys(ctx, "*:waiting").Val()) == 1 || len(woken) == 1
		})
		start := time.Now()
		must(t, c.Complete(t.Context(), completion("paid")))
		must(t, <-woken)
		if time.Since(start) < 250*time.Millisecond {
			return
		}
	}
	t.Error("no waiter was woken by a message")
}

func TestAMessageWakes(t *testing.T) {
	testWakeUp(t, func(t *testing.T, url string) *redisstore.Store { return newStore(t, newClient(t, url)) })
}

func TestAMessageWakesThroughRueidis(t *testing.T) {
	testWakeUp(t, func(t *testing.T, url string) *redisstore.Store { return newRueidisStore(t, url) })
}

func TestAMessageIsSentWhereSomebodyWaitsAlone(t *testing.T) {
	server := testserver.StartRedis(t)
	client := newClient(t, server.URL())
	store := newStore(t, client)
	heard := client.Subscribe(t.Context(), redisstore.DefaultPrefix+"wake")
	defer heard.Close()
	if _, err := heard.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	must(t, claim(t, store, request()).Complete(t.Context(), completion("nobody waits")))
	req := request()
	c := claim(t, store, req)
	must(t, store.Wait(t.Context(), req.Key))
	must(t, c.Release(t.Context()))
	first, err := heard.ReceiveTimeout(t.Context(), 30*time.Second)
	must(t, err)
	message := first.(*redis.Message)
	if keys := client.Keys(t.Context(), "*{"+message.Payload+"}").Val(); len(keys) != 1 {
		t.Fatalf("the message names %d operations, want that which was waited for", len(keys))
	}
	if !claimedTwice(t, store, req) {
		t.Error("the first message was of another operation")
	}
}

// claimedTwice says whether the operation was claimed once before.
func claimedTwice(t *testing.T, store dedup.Store, req dedup.ClaimRequest) bool {
	t.Helper()
	return claim(t, store, again(req)).Attempt() == 2
}

func TestALostConnectionIsReplacedAndNobodyWaitsForEver(t *testing.T) {
	server := testserver.StartRedis(t)
	client := newClient(t, server.URL())
	store := newStore(t, client)
	awaitListener(t, client, store, request().Key)
	must(t, client.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err())

	req := request()
	c := claim(t, store, req)
	done := make(chan error, 1)
	go func() {
		for {
			if err := store.Wait(t.Context(), req.Key); err != nil {
				done <- err
				return
			}
			if answer, err := store.Claim(t.Context(), again(req)); err != nil || answer.State == dedup.Completed {
				done <- err
				return
			}
		}
	}()
	must(t, c.Complete(t.Context(), completion("paid")))
	must(t, <-done)
	eventually(t, "the store listens again", func(ctx context.Context) bool { return listeners(ctx, t, client) == 1 })
}

func TestCloseWakesThoseWhoWait(t *testing.T) {
	server := testserver.StartRedis(t)
	client := newClient(t, server.URL())
	store := newStore(t, client)
	awaitListener(t, client, store, request().Key)
	req := request()
	claim(t, store, req)
	woken := make(chan error, 1)
	go func() { woken <- store.Wait(t.Context(), req.Key) }()
	must(t, store.Close())
	must(t, <-woken)
	eventually(t, "nobody listens", func(ctx context.Context) bool { return listeners(ctx, t, client) == 0 })
	must(t, store.Wait(t.Context(), req.Key)) // by its poll
}
