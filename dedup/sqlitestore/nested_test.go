package sqlitestore

import (
	"context"
	"errors"
	"testing"

	"github.com/retrysafe/retrysafe/dedup"
)

// nest claims inside c.
func nest(t *testing.T, s *Store, c dedup.Claim, id string) dedup.Claim {
	t.Helper()
	return take(t, c.Context(bounded(t)), s, id)
}

func TestNestedClaimSharesTheFate(t *testing.T) {
	for _, tc := range []struct {
		name    string
		settle  func(outer dedup.Claim) error
		effects []string
		inner   dedup.State
	}{
		{"of one that is completed", func(c dedup.Claim) error { return c.Complete(bounded(t), recorded("paid")) },
			[]string{"deep", "inner", "outer"}, dedup.Completed},
		{"of one that is undone", func(c dedup.Claim) error {
			undone := recorded("refused")
			undone.Undo = true
			return c.Complete(bounded(t), undone)
		}, nil, dedup.Claimed},
		{"of one that is released", func(c dedup.Claim) error { return c.Release(bounded(t)) }, nil, dedup.Claimed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := open(t)
			outer := take(t, bounded(t), s, "outer")
			mustWrite(t, outer, "outer")
			inner := nest(t, s, outer, "inner")
			mustWrite(t, inner, "inner")
			deep := nest(t, s, inner, "deep")
			mustWrite(t, deep, "deep")
			mustComplete(t, deep, "paid")
			mustComplete(t, inner, "paid")
			wantEffects(t, s)
			if err := tc.settle(outer); err != nil {
				t.Fatal(err)
			}
			wantEffects(t, s, tc.effects...)
			wantState(t, s, "inner", tc.inner)
			wantState(t, s, "deep", tc.inner)
		})
	}
}

func TestNestedClaimEndsAlone(t *testing.T) {
	s := open(t)
	outer := take(t, bounded(t), s, "outer")
	mustWrite(t, outer, "outer")
	released := nest(t, s, outer, "released")
	mustWrite(t, released, "released")
	if err := released.Release(bounded(t)); err != nil {
		t.Fatal(err)
	}
	undone := nest(t, s, outer, "undone")
	mustWrite(t, undone, "undone")
	if err := undone.Complete(bounded(t), dedup.Completion{Retention: keepLong, Undo: true}); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, outer, "outer again")
	mustComplete(t, outer, "paid")
	wantEffects(t, s, "outer", "outer again")
	wantState(t, s, "released", dedup.Claimed)
	wantState(t, s, "undone", dedup.Completed)
}

// Inside an execution nobody waits for it, nor gets in the way of it.
func TestNestedClaimNeverWaits(t *testing.T) {
	s := open(t)
	second := openAt(t, databaseOf(t, s))
	outer := take(t, bounded(t), s, "outer")
	ctx := outer.Context(bounded(t))
	if answer := ask(t, ctx, s, request("outer")); answer.State != dedup.InProgress {
		t.Errorf("the operation itself: %v, want %v", answer.State, dedup.InProgress)
	}
	if answer := ask(t, ctx, second, request("outer")); answer.State != dedup.InProgress {
		t.Errorf("the operation itself, through another store: %v, want %v", answer.State, dedup.InProgress)
	}
	other := request("outer")
	other.Fingerprint = dedup.FingerprintBytes([]byte("another"))
	if answer := ask(t, ctx, s, other); answer.State != dedup.Reused {
		t.Errorf("the operation itself with another request: %v, want %v", answer.State, dedup.Reused)
	}

	req := request("inner")
	inner := ask(t, ctx, second, req).Claim // joins, though it is another store on the file
	if again := ask(t, ctx, s, req); again.State != dedup.Claimed || again.Claim.Fence() != inner.Fence() {
		t.Errorf("the same owner: %v, want its claim again", again.State)
	}
	_, err := s.Claim(ctx, request("beside"))
	wantError(t, "a second one beside it", err, ErrNestedOpen)
	wantError(t, "a statement of the outer one's", write(ctx, "m"), ErrNestedOpen)
	mustComplete(t, inner, "paid")
	if answer := ask(t, ctx, s, request("inner")); answer.State != dedup.Completed {
		t.Errorf("what was completed inside: %v, want %v", answer.State, dedup.Completed)
	}
	mustComplete(t, outer, "paid")
	wantState(t, second, "inner", dedup.Completed)
}

func databaseOf(t *testing.T, s *Store) (path string) {
	t.Helper()
	err := s.DB().QueryRow(`SELECT file FROM pragma_database_list WHERE name = 'main'`).Scan(&path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// A nested claim that its handler forgot is undone with all it wrote.
func TestForgottenNestedClaim(t *testing.T) {
	s := open(t)
	outer := take(t, bounded(t), s, "outer")
	inner := nest(t, s, outer, "inner")
	mustWrite(t, inner, "inner")
	deep := nest(t, s, inner, "deep")
	mustWrite(t, deep, "deep")
	mustComplete(t, outer, "paid")
	for _, c := range []dedup.Claim{inner, deep} {
		wantError(t, "Complete of the forgotten one", c.Complete(bounded(t), recorded("paid")), dedup.ErrLeaseLost)
		wantError(t, "Release of the forgotten one", c.Release(bounded(t)), dedup.ErrLeaseLost)
	}
	wantEffects(t, s)
	wantState(t, s, "inner", dedup.Claimed)
	wantState(t, s, "outer", dedup.Completed)
}

// A context that outlived its execution claims like any other.
func TestContextOfASettledClaim(t *testing.T) {
	s := open(t)
	outer := take(t, bounded(t), s, "outer")
	inner := nest(t, s, outer, "inner")
	ctx := inner.Context(outer.Context(bounded(t)))
	mustComplete(t, inner, "paid")
	joined := take(t, ctx, s, "joined") // inside the outer one, which goes on
	mustComplete(t, joined, "paid")
	mustComplete(t, outer, "paid")
	free := take(t, ctx, s, "free")
	mustWrite(t, free, "m")
	mustComplete(t, free, "paid")
	wantEffects(t, s, "m")
	wantState(t, s, "joined", dedup.Completed)
}

// Two databases: what is nested in one does not hide the other.
func TestNestedOverTwoDatabases(t *testing.T) {
	here, there := open(t), open(t)
	outer := take(t, bounded(t), here, "outer")
	ctx := outer.Context(bounded(t))
	middle := take(t, ctx, there, "middle")
	ctx = middle.Context(ctx)
	if err := write(ctx, "there"); err != nil {
		t.Fatal(err)
	}
	inner := take(t, ctx, here, "inner")
	if err := write(inner.Context(ctx), "here"); err != nil {
		t.Fatal(err)
	}
	mustComplete(t, inner, "paid")
	mustComplete(t, middle, "paid")
	wantEffects(t, there, "there")
	wantEffects(t, here)
	mustComplete(t, outer, "paid")
	wantEffects(t, here, "here")
}

// A handler that reads rows may execute an operation for each.
func TestNestedWhileRowsAreOpen(t *testing.T) {
	s := open(t)
	outer := take(t, bounded(t), s, "outer")
	ctx, tx := handler(t, outer)
	if _, err := tx.ExecContext(ctx, `INSERT INTO effect VALUES ('1'), ('2'), ('3')`); err != nil {
		t.Fatal(err)
	}
	rows, err := tx.QueryContext(ctx, `SELECT marker FROM effect WHERE marker < 'a'`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for i := 0; rows.Next(); i++ {
		var marker string
		if err := rows.Scan(&marker); err != nil {
			t.Fatal(err)
		}
		c := nest(t, s, outer, marker)
		mustWrite(t, c, "nested "+marker)
		if i == 1 {
			if err := c.Release(bounded(t)); err != nil {
				t.Fatal(err)
			}
			continue
		}
		mustComplete(t, c, "paid")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	mustComplete(t, outer, "paid")
	wantEffects(t, s, "1", "2", "3", "nested 1", "nested 3")
}

// A nested handler that rolls back to a savepoint of the outer one's takes the
// store's own savepoint away. Then the whole transaction is gone.
func TestSavepointTakenAway(t *testing.T) {
	s := open(t)
	outer := take(t, bounded(t), s, "outer")
	ctx := outer.Context(bounded(t))
	if err := errors.Join(run(ctx, `SAVEPOINT mine`), write(ctx, "outer")); err != nil {
		t.Fatal(err)
	}
	inner := nest(t, s, outer, "inner")
	innerCtx := inner.Context(ctx)
	if err := run(innerCtx, `ROLLBACK TO mine`); err != nil {
		t.Fatal(err)
	}
	if err := inner.Complete(bounded(t), recorded("paid")); err == nil {
		t.Error("the nested one was completed")
	}
	wantError(t, "the outer one's next statement", write(ctx, "stray"), ErrRolledBack)
	wantError(t, "Complete", outer.Complete(bounded(t), recorded("paid")), ErrRolledBack)
	wantEffects(t, s)
	for _, id := range []string{"outer", "inner"} {
		wantState(t, s, id, dedup.Claimed)
	}
}

// Others who ask for what is held inside wait for it to be committed.
func TestNestedClaimIsHeld(t *testing.T) {
	s := open(t)
	outer := take(t, bounded(t), s, "outer")
	inner := nest(t, s, outer, "inner")
	ended, cancel := context.WithCancel(bounded(t))
	cancel()
	held := func(what string) {
		t.Helper()
		if answer := ask(t, ended, s, request("inner")); answer.State != dedup.InProgress {
			t.Errorf("%s: %v, want %v", what, answer.State, dedup.InProgress)
		}
	}
	held("open")
	mustComplete(t, inner, "paid")
	held("completed in an open execution")
	if err := outer.Release(bounded(t)); err != nil {
		t.Fatal(err)
	}
	wantState(t, s, "inner", dedup.Claimed)
}
