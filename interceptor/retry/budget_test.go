package retry_test

import (
	"log/slog"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe/interceptor/retry"
)

var aTenth = retry.WithBudget(retry.Budget{MaxTokens: 10, TokenRatio: 0.1})

func TestFourFailuresMayBeRetriedAndTheFifthMayNot(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := answering(errDown)
		err := newClient(t, s, aTenth, retry.WithPolicy(immediate)).call(t.Context())
		wantCalls(t, s, 5)
		ex := exhausted(t, err, retry.ReasonBudget)
		if !ex.Reason.BudgetExhausted() {
			t.Error("BudgetExhausted is false")
		}
	})
}

func TestTheBudgetIsAskedBeforeTheWait(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := answering(errDown)
		err := newClient(t, s, aTenth, retry.WithPolicy(steady(9))).call(t.Context())
		exhausted(t, err, retry.ReasonBudget)
		if got := len(s.waits()); got != 4 {
			t.Errorf("there were %d waits, want 4", got)
		}
	})
}

func TestABudgetRecoversByItsRatio(t *testing.T) {
	for _, tt := range []struct {
		name      string
		failures  int // calls that fail, until the bucket holds what the name says
		successes int
		retried   bool
	}{
		{"from five, 10 successes are too few", 1, 10, false},
		{"from five, 11 are enough", 1, 11, true},
		{"from none, 60 are too few", 20, 60, false},
		{"from none, 61 are enough", 20, 61, true},
	} {
		for way, opts := range map[string][]retry.Option{
			"Safe":     nil,
			"Unsafe":   {retry.WithMethodSafety("/other.v1.Other/*", retry.SafetyUnsafe)},
			"observed": {retry.WithLogger(slog.New(slog.DiscardHandler))},
		} {
			bubble(t, tt.name+"/"+way, func(t *testing.T) {
				s := answering(errDown)
				c := newClient(t, s, append(opts, aTenth, retry.WithPolicy(immediate))...)
				for range tt.failures {
					exhausted(t, c.call(t.Context()), retry.ReasonBudget)
				}
				c.server = answering(nil)
				for range tt.successes {
					_ = c.callMethod(t.Context(), "/other.v1.Other/Call")
				}
				c.server = answering(errDown, nil)
				if err := c.call(t.Context()); (err == nil) != tt.retried {
					t.Errorf("the failure after that: %v", err)
				}
			})
		}
	}
}

func TestABucketDoesNotOverflow(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		c := newClient(t, answering(errDown, nil), retry.WithBudget(retry.Budget{MaxTokens: 10, TokenRatio: 3}), retry.WithPolicy(immediate))
		if err := c.call(t.Context()); err != nil { // takes one token and gives three
			t.Fatal(err)
		}
		c.server = answering(errDown)
		exhausted(t, c.call(t.Context()), retry.ReasonBudget)
		wantCalls(t, c.server, 5)
	})
}

func TestWhatTakesNoToken(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer error
		opts   []retry.Option
	}{
		{"an answer that is not retried", errAbsent, nil},
		{"an Unsafe call", errDown, []retry.Option{retry.WithMethodSafety("/test.v1.Test/*", retry.SafetyUnsafe)}},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			c := newClient(t, answering(tt.answer), append(tt.opts, aTenth, retry.WithPolicy(immediate))...)
			for range 20 {
				_ = c.call(t.Context())
			}
			c.server = answering(errDown)
			exhausted(t, c.callMethod(t.Context(), "/other.v1.Other/Call"), retry.ReasonBudget)
			wantCalls(t, c.server, 5)
		})
	}
}

func TestTheDefaultBudget(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := answering(errDown)
		p := immediate
		p.MaxAttempts = 1000
		exhausted(t, newClient(t, s, retry.WithPolicy(p)).call(t.Context()), retry.ReasonBudget)
		wantCalls(t, s, 50)
	})
}

func TestWithoutBudget(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := answering(errDown)
		p := immediate
		p.MaxAttempts = 1000
		exhausted(t, newClient(t, s, retry.WithPolicy(p), retry.WithoutBudget()).call(t.Context()), retry.ReasonMaxAttempts)
		wantCalls(t, s, 1000)
	})
}

func TestABudgetIsSharedByCallsAtOnce(t *testing.T) {
	s := answering(errDown)
	c := newClient(t, s, retry.WithBudget(retry.Budget{MaxTokens: 100, TokenRatio: 0.1}), retry.WithPolicy(immediate))
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() { _ = c.call(t.Context()) })
	}
	wg.Wait()
	// 64 first attempts, and the 49 retries that leave more than half.
	if got := s.calls(); got > 64+49 || got < 64 {
		t.Errorf("the server saw %d attempts, want at most 113", got)
	}
}
