package redisstore_test

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/redisstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// newPrefix names keys that nobody else names.
func newPrefix() string { return "test-" + rand.Text() + ":" }

// newClient returns a client of go-redis of one server, which ends with the
// test.
func newClient(tb testing.TB, url string, configure ...func(*redis.Options)) *redis.Client {
	tb.Helper()
	options, err := redis.ParseURL(url)
	must(tb, err)
	options.ContextTimeoutEnabled = true
	for _, f := range configure {
		f(options)
	}
	client := redis.NewClient(options)
	tb.Cleanup(func() { must(tb, client.Close()) })
	return client
}

// newStore returns a store on the client, which ends before the client.
func newStore(tb testing.TB, client redisstore.Client, opts ...redisstore.Option) *redisstore.Store {
	tb.Helper()
	store, err := redisstore.New(tb.Context(), client, opts...)
	must(tb, err)
	tb.Cleanup(func() { must(tb, store.Close()) })
	return store
}

// request asks for a new operation.
func request() dedup.ClaimRequest {
	return dedup.ClaimRequest{
		Key:         dedup.Key{Scope: "tenant", Method: "/test.v1.Service/Method", ID: rand.Text()},
		Fingerprint: dedup.FingerprintBytes([]byte("debit")),
		Owner:       newOwner(),
		Lease:       time.Minute,
		Retention:   time.Hour,
	}
}

func newOwner() (owner dedup.Owner) {
	rand.Read(owner[:]) // never fails, by its documentation
	return owner
}

// again is a request for the same operation by somebody else.
func again(req dedup.ClaimRequest) dedup.ClaimRequest {
	req.Owner = newOwner()
	return req
}

func ask(tb testing.TB, store dedup.Store, req dedup.ClaimRequest) dedup.Answer {
	tb.Helper()
	answer, err := store.Claim(tb.Context(), req)
	must(tb, err)
	return answer
}

func claim(tb testing.TB, store dedup.Store, req dedup.ClaimRequest) dedup.Claim {
	tb.Helper()
	answer := ask(tb, store, req)
	wantState(tb, answer, dedup.Claimed)
	return answer.Claim
}

func wantState(tb testing.TB, answer dedup.Answer, want dedup.State) {
	tb.Helper()
	if answer.State != want {
		tb.Fatalf("answered %v, want %v", answer.State, want)
	}
}

func wantRecord(tb testing.TB, store dedup.Store, req dedup.ClaimRequest, want string) {
	tb.Helper()
	answer := ask(tb, store, again(req))
	wantState(tb, answer, dedup.Completed)
	if string(answer.Record) != want {
		tb.Fatalf("record %q, want %q", answer.Record, want)
	}
}

func completion(record string) dedup.Completion {
	return dedup.Completion{Record: []byte(record), Retention: time.Hour}
}

// eventually waits for a condition, far longer than it takes.
func eventually(tb testing.TB, what string, done func(context.Context) bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 30*time.Second)
	defer cancel()
	for !done(ctx) {
		if ctx.Err() != nil {
			tb.Fatalf("%s: not in time", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
