package pgstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/pgstore"
)

// outer makes a claim and returns the context of its handler.
func (db *database) outer(s dedup.Store) (dedup.Claim, context.Context) {
	db.Helper()
	claim := db.claim(db.Context(), s, request(newKey()))
	return claim, claim.Context(db.Context())
}

func TestAnOperationWithinAnother(t *testing.T) {
	paid, noFunds := recorded("paid"), undone("no funds")
	for _, tc := range []struct {
		name           string
		inner, outer   *dedup.Completion // nil: Release
		wantInner      bool              // the inner record and write are there
		wantInnerWrite bool
		wantOuterWrite bool
	}{
		{"both complete", &paid, &paid, true, true, true},
		{"inner business error", &noFunds, &paid, true, false, true},
		{"inner released", nil, &paid, false, false, true},
		{"outer business error", &paid, &noFunds, false, false, false},
		{"outer released", &paid, nil, false, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			db := newDatabase(t)
			s := db.store(db.pool(oneConnection)) // a second connection would never come
			settle := func(claim dedup.Claim, c *dedup.Completion) {
				if c == nil {
					db.must(claim.Release(t.Context()))
				} else {
					db.must(claim.Complete(t.Context(), *c))
				}
			}
			outer, ctx := db.outer(s)
			outerMarker, key := unique(), newKey()
			db.must(db.write(ctx, outerMarker))
			inner := db.claim(ctx, s, request(key))
			innerCtx := inner.Context(ctx)
			db.must(db.write(innerCtx, key.ID))
			settle(inner, tc.inner)
			if err := db.write(innerCtx, unique()); err == nil {
				t.Error("the inner handler's transaction goes on after its end")
			}
			settle(outer, tc.outer)

			want := dedup.Claimed
			if tc.wantInner {
				want = dedup.Completed
			}
			db.wantState(s, key, want)
			if db.written(key.ID) != tc.wantInnerWrite {
				t.Errorf("the inner write is there: %v", !tc.wantInnerWrite)
			}
			if db.written(outerMarker) != tc.wantOuterWrite {
				t.Errorf("the outer write is there: %v", !tc.wantOuterWrite)
			}
		})
	}
}

func TestAnOperationWithinItself(t *testing.T) {
	db := newDatabase(t)
	s := db.store(db.pool(oneConnection))
	key := newKey()
	outer := db.claim(t.Context(), s, request(key))
	ctx := outer.Context(t.Context())
	db.wantState2(ctx, s, key, dedup.InProgress)
	middle := newKey()
	inner := db.claim(ctx, s, request(middle))
	innerCtx := inner.Context(ctx)
	db.wantState2(innerCtx, s, key, dedup.InProgress)
	db.wantState2(innerCtx, s, middle, dedup.InProgress)
	db.must(inner.Complete(t.Context(), recorded("inner")))
	db.wantState2(ctx, s, middle, dedup.Completed)
	released := newKey()
	db.must(db.claim(ctx, s, request(released)).Release(t.Context()))
	db.must(db.claim(ctx, s, request(released)).Complete(t.Context(), recorded("at the second time")))
	db.must(outer.Complete(t.Context(), recorded("outer")))
}

// wantState2 asks in a handler's context.
func (db *database) wantState2(ctx context.Context, s dedup.Store, key dedup.Key, want dedup.State) {
	db.Helper()
	answer, err := s.Claim(ctx, request(key))
	db.must(err)
	if answer.State != want {
		db.Fatalf("answered %v, want %v", answer.State, want)
	}
}

// TestAnOperationWithinAnotherThatAThirdHolds does not wait: the third may want
// what the outer one has locked.
func TestAnOperationWithinAnotherThatAThirdHolds(t *testing.T) {
	db := newDatabase(t)
	s, third := db.store(db.pool(oneConnection)), db.store(db.pool())
	key := newKey()
	held := db.claim(t.Context(), third, request(key))
	outer, ctx := db.outer(s)
	db.wantState2(ctx, s, key, dedup.InProgress)
	db.must(held.Complete(t.Context(), recorded("third")))
	db.wantState2(ctx, s, key, dedup.Completed)
	db.must(outer.Complete(t.Context(), recorded("outer")))
}

func TestWhatFailsWithinAnotherLeavesTheOtherWell(t *testing.T) {
	db := newDatabase(t)
	s := db.store(db.pool(oneConnection))
	outer, ctx := db.outer(s)
	marker := unique()
	db.must(db.write(ctx, marker))
	inner := db.claim(ctx, s, request(newKey()))
	tx, err := pgstore.Tx(inner.Context(ctx))
	db.must(err)
	if _, err := tx.Exec(ctx, "SELECT 1/0"); err == nil {
		t.Fatal("1/0 went through")
	}
	if err := inner.Complete(t.Context(), recorded("paid")); err == nil {
		t.Error("it was recorded")
	}
	refused := db.claim(ctx, s, request(newKey()))
	if err := refused.Complete(t.Context(), dedup.Completion{Retention: time.Microsecond}); err == nil {
		t.Error("a retention of a microsecond was accepted")
	}
	db.must(outer.Complete(t.Context(), recorded("outer")))
	if !db.written(marker) {
		t.Error("the outer write is gone")
	}
}

func TestClaimsWithinEachOtherAreSettledInTurn(t *testing.T) {
	db := newDatabase(t)
	s := db.store(db.pool(oneConnection))
	outer, ctx := db.outer(s)
	first := db.claim(ctx, s, request(newKey()))
	second := db.claim(first.Context(ctx), s, request(newKey()))
	if err := first.Complete(t.Context(), recorded("first")); err == nil {
		t.Error("a claim was completed before one within it")
	}
	db.must(second.Complete(t.Context(), recorded("second")))
	if err := outer.Complete(t.Context(), recorded("outer")); err != nil {
		t.Error(err)
	}
}

// TestAnExpiredOutcomeWithinAnotherOperation is gone there too.
func TestAnExpiredOutcomeWithinAnotherOperation(t *testing.T) {
	db := newDatabase(t)
	s := db.store(db.pool(oneConnection), pgstore.WithoutSweeping())
	key := newKey()
	db.must(db.claim(t.Context(), s, request(key)).Complete(t.Context(), recorded("paid")))
	db.exec("UPDATE " + db.name("retrysafe_outcomes") + " SET expires_at = now()")
	outer, ctx := db.outer(s)
	db.must(db.claim(ctx, s, request(key)).Complete(t.Context(), recorded("anew")))
	db.must(outer.Complete(t.Context(), recorded("outer")))
	if answer := db.wantState(s, key, dedup.Completed); string(answer.Record) != "anew" {
		t.Errorf("record %q", answer.Record)
	}
}
