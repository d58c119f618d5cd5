package dedup

import (
	"container/list"
	"testing"
	"time"
)

// TestACacheTrustsTheClockThatIsAhead: while a machine is suspended its
// monotonic clock stands still, and its wall clock can be set back.
func TestACacheTrustsTheClockThatIsAhead(t *testing.T) {
	for name, tt := range map[string]struct {
		monotonic, wall time.Duration
		hit             bool
	}{
		"neither has passed":     {30 * time.Second, 30 * time.Second, true},
		"suspended":              {time.Second, time.Hour, false},
		"set back":               {time.Hour, -24 * time.Hour, false},
		"set back a little":      {30 * time.Second, -24 * time.Hour, true},
		"set forward, at worst":  {time.Second, 24 * time.Hour, false},
		"both have passed":       {time.Hour, time.Hour, false},
		"the last moment before": {time.Minute - time.Minute/cacheDrift - 1, 0, true},
		"the moment itself":      {time.Minute - time.Minute/cacheDrift, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			now := clocks{monotonic: 1, wall: time.Now().UnixNano()}
			c := &cache{store: NewMemory(), now: func() clocks { return now }, entries: map[Key]*list.Element{}}
			c.settings, _ = newCacheSettings(nil)
			req := ClaimRequest{Key: Key{ID: "k"}, Lease: time.Minute, Retention: time.Minute}
			answer, err := c.Claim(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if err := answer.Claim.Complete(t.Context(), Completion{Retention: time.Minute}); err != nil {
				t.Fatal(err)
			}
			now.monotonic += int64(tt.monotonic)
			now.wall += int64(tt.wall)
			if _, err := c.Claim(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			if hit := c.Stats().Hits == 1; hit != tt.hit {
				t.Errorf("answered from memory: %v, want %v", hit, tt.hit)
			}
		})
	}
}
