package redisstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/internal/testserver"
)

func TestAFullServerRefusesWhatIsNewAndKnowsWhatWas(t *testing.T) {
	server := testserver.StartRedis(t)
	client := newClient(t, server.URL())
	store := newStore(t, client)
	done, held, given, waiting := request(), request(), request(), request()
	must(t, claim(t, store, done).Complete(t.Context(), completion("paid")))
	c, freed := claim(t, store, held), claim(t, store, given)
	must(t, client.ConfigSet(t.Context(), "maxmemory", "1").Err())

	wantFull := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, dedup.ErrFull) {
			t.Errorf("%s: error %v, want ErrFull", what, err)
		}
	}
	_, err := store.Claim(t.Context(), waiting)
	wantFull("Claim of a new operation", err)
	wantFull("Complete", c.Complete(t.Context(), completion(strings.Repeat("large ", 1000))))

	wantRecord(t, store, done, "paid")
	wantState(t, ask(t, store, again(held)), dedup.InProgress)
	must(t, store.Wait(t.Context(), done.Key))
	must(t, store.Wait(t.Context(), held.Key)) // early, and without an error
	must(t, c.Renew(t.Context(), time.Minute))
	must(t, freed.Release(t.Context()))
	_, err = store.Claim(t.Context(), again(given))
	wantFull("Claim of an operation that was released", err)

	must(t, client.ConfigSet(t.Context(), "maxmemory", "0").Err())
	must(t, c.Complete(t.Context(), completion("late")))
	wantRecord(t, store, held, "late")
	if next := claim(t, store, again(given)); next.Attempt() != 2 {
		t.Errorf("attempt %d after a release, want 2", next.Attempt())
	}
	claim(t, store, waiting)
}
