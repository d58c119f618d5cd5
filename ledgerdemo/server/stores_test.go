package server

import (
	"crypto/rand"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/redisstore"
	ledgerv1 "github.com/retrysafe/retrysafe/gen/ledger/v1"
	"github.com/retrysafe/retrysafe/internal/testserver"
	"github.com/retrysafe/retrysafe/ledgerdemo/database"
)

// onEach runs a test on each way of keeping the ledger and its outcomes.
func onEach(t *testing.T, test func(*testing.T, Config)) {
	postgres := func(t *testing.T) database.URL {
		return database.URL{Kind: database.PostgreSQL, Address: testserver.Postgres(t)}
	}
	redis := func(t *testing.T, ledger database.URL) Config {
		return Config{
			Store:  database.URL{Kind: database.Redis, Address: testserver.Redis(t)},
			Ledger: ledger,
			Prefix: "test-" + rand.Text() + ":",
		}
	}
	t.Run("SQLite", func(t *testing.T) { test(t, Config{Store: newFile(t)}) })
	t.Run("PostgreSQL", func(t *testing.T) { test(t, Config{Store: postgres(t)}) })
	t.Run("Redis and SQLite", func(t *testing.T) { test(t, redis(t, newFile(t))) })
	t.Run("Redis and PostgreSQL", func(t *testing.T) { test(t, redis(t, postgres(t))) })
}

func TestARepeatIsAnsweredAndNotExecuted(t *testing.T) {
	onEach(t, func(t *testing.T, c Config) {
		c.OnUnknown = func() { t.Error("an outcome is said to be unknown") }
		conn, _ := start(t, c)
		client := openAlice(t, conn)
		req := &ledgerv1.DebitRequest{AccountId: "alice", Amount: eur(300)}
		var first, second metadata.MD
		a, err := client.Debit(keyed(t, "k"), req, grpc.Header(&first))
		if err != nil {
			t.Fatal(err)
		}
		b, err := client.Debit(keyed(t, "k"), req, grpc.Header(&second))
		if err != nil {
			t.Fatal(err)
		}
		if a.GetEntry().GetEntryId() != b.GetEntry().GetEntryId() {
			t.Errorf("entries %d and %d", a.GetEntry().GetEntryId(), b.GetEntry().GetEntryId())
		}
		if len(first.Get("idempotency-replayed")) != 0 || len(second.Get("idempotency-replayed")) != 1 {
			t.Errorf("replayed: %v, %v", first, second)
		}
		if got := balance(t, client); got != 700 {
			t.Errorf("alice holds %d", got)
		}
		if _, err := client.Debit(t.Context(), req); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("without a key: %v", err)
		}
	})
}

func TestWithoutDedupEveryAttemptExecutes(t *testing.T) {
	onEach(t, func(t *testing.T, c Config) {
		c.WithoutDedup = true
		conn, _ := start(t, c)
		client := openAlice(t, conn)
		for range 2 {
			if _, err := client.Debit(keyed(t, "k"), &ledgerv1.DebitRequest{AccountId: "alice", Amount: eur(300)}); err != nil {
				t.Fatal(err)
			}
		}
		if got := balance(t, client); got != 400 {
			t.Errorf("alice holds %d", got)
		}
	})
}

func TestWhatWasAnsweredOutlivesTheServer(t *testing.T) {
	onEach(t, func(t *testing.T, c Config) {
		conn, stop := start(t, c)
		client := openAlice(t, conn)
		req := &ledgerv1.DebitRequest{AccountId: "alice", Amount: eur(300)}
		if _, err := client.Debit(keyed(t, "k"), req); err != nil {
			t.Fatal(err)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		conn, _ = start(t, c)
		client = ledgerv1.NewLedgerServiceClient(conn)
		if _, err := client.Debit(keyed(t, "k"), req); err != nil {
			t.Fatal(err)
		}
		if got := balance(t, client); got != 700 {
			t.Errorf("alice holds %d", got)
		}
	})
}

func TestAnotherServerAnswersARepeat(t *testing.T) {
	onEach(t, func(t *testing.T, c Config) {
		one, _ := start(t, c)
		other, _ := start(t, c)
		client := openAlice(t, one)
		req := &ledgerv1.DebitRequest{AccountId: "alice", Amount: eur(300)}
		if _, err := client.Debit(keyed(t, "k"), req); err != nil {
			t.Fatal(err)
		}
		if _, err := ledgerv1.NewLedgerServiceClient(other).Debit(keyed(t, "k"), req); err != nil {
			t.Fatal(err)
		}
		if got := balance(t, client); got != 700 {
			t.Errorf("alice holds %d", got)
		}
	})
}

func TestAnUnknownOutcomeIsToldBeforeItIsExecutedAgain(t *testing.T) {
	redis, err := redisstore.Open(t.Context(), testserver.Redis(t), redisstore.WithPrefix("test-"+rand.Text()+":"))
	if err != nil {
		t.Fatal(err)
	}
	defer redis.Close()
	told := 0
	store := watch(redis, func() { told++ })
	key := dedup.Key{Method: "debit", ID: "1"}
	claim := func(lease time.Duration) dedup.Claim {
		var owner dedup.Owner
		rand.Read(owner[:])
		for {
			answer, err := store.Claim(t.Context(), dedup.ClaimRequest{Key: key, Owner: owner, Lease: lease, Retention: time.Hour, Takeover: true})
			if err == nil && answer.State == dedup.InProgress {
				err = store.(dedup.Waiter).Wait(t.Context(), key)
			} else if err == nil && answer.State == dedup.Claimed {
				return answer.Claim
			}
			if err != nil {
				t.Fatalf("answered %v, %v", answer.State, err)
			}
		}
	}
	if err := claim(time.Hour).Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	claim(10 * time.Millisecond)
	if told != 0 {
		t.Errorf("told %d times of claims that were released or are the first", told)
	}
	if claim(time.Hour); told != 1 {
		t.Errorf("told %d times of a claim that was left", told)
	}
}
