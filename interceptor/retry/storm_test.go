package retry_test

import (
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/interceptor/retry"
)

// A thousand clients that fail together do not retry together: of their first
// retries, drawn over a second, no 10 ms sees more than a few. Without jitter
// all fall into one, which is the test of the test.
func TestClientsThatFailTogetherDoNotRetryTogether(t *testing.T) {
	const clients = 1000
	busiest := func(t *testing.T, jitter retry.Jitter) int {
		s := answering(errDown)
		c := newClient(t, s, retry.WithoutBudget(), retry.WithPolicy(retry.Policy{
			MaxAttempts: 2, Backoff: retry.Backoff{Base: time.Second, Cap: time.Second, Jitter: jitter},
		}))
		start := time.Now()
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() { _ = c.call(t.Context()) })
		}
		wg.Wait()
		wantCalls(t, s, 2*clients)
		perSlot := make(map[time.Duration]int)
		for _, a := range s.attempts {
			if after := a.at.Sub(start); after > 0 {
				perSlot[after/(10*time.Millisecond)]++
			}
		}
		most := 0
		for _, n := range perSlot {
			most = max(most, n)
		}
		return most
	}
	bubble(t, "full jitter", func(t *testing.T) {
		// Ten are expected in each of the 100 slots. That any of them has 50
		// has a probability below 1e-15.
		if most := busiest(t, retry.JitterFull); most >= 50 {
			t.Errorf("%d of %d retries came within 10 ms", most, clients)
		}
	})
	bubble(t, "no jitter", func(t *testing.T) {
		if most := busiest(t, retry.JitterNone); most != clients {
			t.Errorf("%d of %d retries came within 10 ms, want all", most, clients)
		}
	})
}
