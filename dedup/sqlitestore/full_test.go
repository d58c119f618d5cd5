package sqlitestore

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/retrysafe/retrysafe/dedup"
)

// limitPages makes the file full at its present size and some pages.
func limitPages(t *testing.T, s *Store, more int) {
	t.Helper()
	var pages int
	if err := s.DB().QueryRow(`PRAGMA page_count`).Scan(&pages); err != nil {
		t.Fatal(err)
	}
	if err := s.writer.raw.Exec(fmt.Sprintf(`PRAGMA max_page_count = %d`, pages+more)); err != nil {
		t.Fatal(err)
	}
}

// A full disk is told as such, loses nothing that was acknowledged, keeps
// replays going, and ends when there is room again.
func TestFull(t *testing.T) {
	s := open(t)
	c := take(t, bounded(t), s, "before")
	mustWrite(t, c, "before")
	mustComplete(t, c, "paid")
	limitPages(t, s, 4)

	c = take(t, bounded(t), s, "record")
	mustWrite(t, c, "record")
	wantError(t, "Complete", c.Complete(bounded(t), recorded(strings.Repeat("r", 1<<20))), dedup.ErrFull)
	wantState(t, s, "record", dedup.Claimed)
	wantEffects(t, s, "before")

	c = take(t, bounded(t), s, "handler")
	ctx, tx := handler(t, c)
	_, err := tx.ExecContext(ctx, `INSERT INTO effect VALUES (?)`, strings.Repeat("m", 1<<20))
	wantError(t, "the handler's statement", err, sqlite3.FULL)
	if err := c.Complete(bounded(t), recorded("small")); err != nil {
		wantError(t, "Complete", err, ErrRolledBack)
		wantState(t, s, "handler", dedup.Claimed)
	}
	wantState(t, s, "before", dedup.Completed)

	limitPages(t, s, 1<<20)
	c = take(t, bounded(t), s, "after")
	mustWrite(t, c, "after")
	mustComplete(t, c, strings.Repeat("r", 1<<20))
	wantEffects(t, s, "after", "before")
	wantState(t, s, "after", dedup.Completed)
}

// In a group, the one whose record does not fit takes the others along, and
// all of them are told.
func TestFullGroup(t *testing.T) {
	s := open(t, wide())
	limitPages(t, s, 8)
	gate := take(t, bounded(t), s, "gate")
	mustWrite(t, gate, "gate")
	large := make(chan error, 1)
	results := inLine(t, s, writes("a"))
	go func() {
		answer, err := s.Claim(bounded(t), request("large"))
		if err == nil {
			err = answer.Claim.Complete(bounded(t), recorded(strings.Repeat("r", 1<<20)))
		}
		large <- err
	}()
	eventually(t, "a place in the line", func() bool { return s.Stats().Waiting == 2 })
	gateErr := gate.Complete(bounded(t), recorded("open"))
	lineErr := <-results[0]
	wantError(t, "the large one", <-large, dedup.ErrFull)
	wantState(t, s, "large", dedup.Claimed)
	for id, err := range map[string]error{"gate": gateErr, "line 0": lineErr} {
		switch {
		case err == nil:
			wantState(t, s, id, dedup.Completed)
		case errors.Is(err, ErrRolledBack):
			wantState(t, s, id, dedup.Claimed)
		default:
			t.Errorf("%s: error %v", id, err)
		}
	}
	if (gateErr == nil) != (lineErr == nil) {
		t.Errorf("members of one group were told %v and %v", gateErr, lineErr)
	}
}

func TestRecordTooLarge(t *testing.T) {
	s := open(t)
	s.writer.raw.Limit(sqlite3.LIMIT_LENGTH, 1<<20)
	c := take(t, bounded(t), s, "a")
	mustWrite(t, c, "m")
	wantError(t, "Complete", c.Complete(bounded(t), recorded(strings.Repeat("r", 2<<20))), dedup.ErrTooLarge)
	wantEffects(t, s)
	wantState(t, s, "a", dedup.Claimed)
}
