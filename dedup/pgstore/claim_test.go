package pgstore_test

import (
	"testing"

	"github.com/retrysafe/retrysafe/dedup"
)

func TestClaimCompleteReplay(t *testing.T) {
	db := newDatabase(t)
	s := db.store(db.pool())
	key := newKey()
	claim := db.claim(t.Context(), s, request(key))
	db.must(db.write(claim.Context(t.Context()), key.ID))
	db.must(claim.Complete(t.Context(), recorded("paid")))
	answer := db.wantState(s, key, dedup.Completed)
	if string(answer.Record) != "paid" {
		t.Errorf("record %q", answer.Record)
	}
	if !db.written(key.ID) {
		t.Error("the handler's write is gone")
	}
}

func TestLeasedClaimCompleteReplay(t *testing.T) {
	db := newDatabase(t)
	s := db.leased(db.pool())
	key := newKey()
	claim := db.claim(t.Context(), s, request(key))
	db.wantState(s, key, dedup.InProgress)
	db.must(claim.Renew(t.Context(), request(key).Lease))
	db.must(claim.Complete(t.Context(), recorded("paid")))
	db.must(claim.Complete(t.Context(), recorded("paid")))
	answer := db.wantState(s, key, dedup.Completed)
	if string(answer.Record) != "paid" {
		t.Errorf("record %q", answer.Record)
	}
}
