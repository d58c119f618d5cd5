package pgstore_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/pgstore"
)

// listening says how many listeners there are in the database.
func (db *database) listening() int {
	db.Helper()
	return db.count("SELECT count(*) FROM pg_stat_activity WHERE query = 'LISTEN retrysafe_settled' AND datname = current_database()")
}

// wakes says whether a waiter at one store is woken by a settlement at the
// other, rather than by its poll.
func (db *database) wakes(waiter, settler *pgstore.Leased, settle func(dedup.Claim) error) bool {
	db.Helper()
	key := newKey()
	claim := db.claim(db.Context(), settler, request(key))
	waited := make(chan time.Time)
	go func() {
		if err := waiter.Wait(db.Context(), key); err != nil {
			db.Error(err)
		}
		waited <- time.Now()
	}()
	db.eventually(func() bool {
		return db.count("SELECT count(*) FROM "+db.name("retrysafe_leases")+" WHERE id = $1 AND waited", []byte(key.ID)) == 1
	})
	settled := time.Now()
	db.must(settle(claim))
	// A poll comes half a second after the wait began, at the earliest.
	return (<-waited).Sub(settled) < 250*time.Millisecond
}

func TestAWaiterIsWoken(t *testing.T) {
	db := newDatabase(t)
	var log syncBuffer
	waiter := db.leased(db.pool(), pgstore.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	settler := db.leased(db.pool())
	woken := func(settle func(dedup.Claim) error) func() bool {
		return func() bool { return db.wakes(waiter, settler, settle) }
	}
	complete := woken(func(c dedup.Claim) error { return c.Complete(t.Context(), recorded("paid")) })
	release := woken(func(c dedup.Claim) error { return c.Release(t.Context()) })
	db.eventually(complete)
	db.eventually(release)
	if n := db.listening(); n != 1 {
		t.Errorf("%d listeners for one store that waits", n)
	}

	// A listener that has lost its connection comes back.
	db.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'LISTEN retrysafe_settled' AND datname = current_database()")
	db.eventually(func() bool { return strings.Contains(log.String(), "listener has lost its connection") })
	db.eventually(func() bool { return db.listening() == 1 })
	db.eventually(complete)

	db.must(waiter.Close())
	db.eventually(func() bool { return db.listening() == 0 })
	if err := waiter.Wait(t.Context(), newKey()); err != nil {
		t.Error(err)
	}
}

func TestWaitingForNothingReturnsAtOnce(t *testing.T) {
	db := newDatabase(t)
	l := db.leased(db.pool())
	key := newKey()
	db.must(l.Wait(t.Context(), key))
	claim := db.claim(t.Context(), l, request(key))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for ctx.Err() == nil {
		if err := l.Wait(ctx, key); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
	db.must(claim.Complete(t.Context(), recorded("paid")))
	db.must(l.Wait(t.Context(), key))
}

// TestTheChannelCarriesNoKey: anyone who may connect may listen.
func TestTheChannelCarriesNoKey(t *testing.T) {
	db := newDatabase(t)
	l := db.leased(db.pool())
	conn, err := db.admin.Acquire(t.Context())
	db.must(err)
	defer conn.Release()
	_, err = conn.Exec(t.Context(), "LISTEN retrysafe_settled")
	db.must(err)
	key := newKey()
	claim := db.claim(t.Context(), l, request(key))
	db.exec("UPDATE " + db.name("retrysafe_leases") + " SET waited = true")
	db.must(claim.Complete(t.Context(), recorded("paid")))
	notification, err := conn.Conn().WaitForNotification(t.Context())
	db.must(err)
	if p := notification.Payload; len(p) != 32 || strings.Contains(p, key.ID) {
		t.Errorf("payload %q", p)
	}
	_, err = conn.Exec(t.Context(), "UNLISTEN *")
	db.must(err)
}

// TestFencesRiseOverRetention: a fence guards effects elsewhere, which remember
// it for longer than the row is kept.
func TestFencesRiseOverRetention(t *testing.T) {
	db := newDatabase(t)
	key := newKey()
	var fence uint64
	for _, s := range []dedup.Store{db.leased(db.pool()), db.store(db.pool())} {
		for range 3 {
			claim := db.claim(t.Context(), s, request(key))
			if claim.Fence() <= fence {
				t.Errorf("fence %d after fence %d", claim.Fence(), fence)
			}
			fence = claim.Fence()
			db.must(claim.Release(t.Context()))
			db.exec("DELETE FROM " + db.name("retrysafe_leases"))
		}
	}
}

// TestADefaultOfSerializableDisturbsNobody: single statements at that level
// would fail under concurrency.
func TestADefaultOfSerializableDisturbsNobody(t *testing.T) {
	db := newDatabase(t)
	db.exec("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = serializable', current_database()); END $$")
	for _, s := range []dedup.Store{db.leased(db.pool()), db.store(db.pool())} {
		done := make(chan error)
		for range 8 {
			go func() {
				for range 10 {
					answer, err := s.Claim(t.Context(), request(newKey()))
					if err == nil {
						err = answer.Claim.Complete(t.Context(), recorded("paid"))
					}
					if err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
		}
		for range 8 {
			db.must(<-done)
		}
	}
}
