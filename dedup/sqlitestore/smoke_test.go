package sqlitestore

import (
	"testing"

	"github.com/retrysafe/retrysafe/dedup"
)

func TestCompletedReplays(t *testing.T) {
	s := open(t)
	c := take(t, bounded(t), s, "a")
	mustWrite(t, c, "m")
	mustComplete(t, c, "paid")
	wantEffects(t, s, "m")
	if answer := wantState(t, s, "a", dedup.Completed); string(answer.Record) != "paid" {
		t.Errorf("record %q", answer.Record)
	}
}
