package sqlitestore

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
)

func TestCompletedIsReplayed(t *testing.T) {
	s := open(t)
	c := take(t, bounded(t), s, "a")
	mustWrite(t, c, "m")
	wantEffects(t, s)
	mustComplete(t, c, "paid")
	wantEffects(t, s, "m")
	answer := wantState(t, s, "a", dedup.Completed)
	if string(answer.Record) != "paid" {
		t.Errorf("record %q, want %q", answer.Record, "paid")
	}
}

// What a duplicate is told while the first attempt runs.
func TestWhileItIsHeld(t *testing.T) {
	s := open(t)
	first := request("a")
	held := ask(t, bounded(t), s, first).Claim
	ended, cancel := context.WithCancel(bounded(t))
	cancel()

	if answer := ask(t, ended, s, request("a")); answer.State != dedup.InProgress {
		t.Errorf("a duplicate whose time is up: %v, want %v", answer.State, dedup.InProgress)
	}
	other := request("a")
	other.Fingerprint = dedup.FingerprintBytes([]byte("another"))
	if answer := ask(t, bounded(t), s, other); answer.State != dedup.Reused || answer.Fingerprint != fingerprint {
		t.Errorf("another request: %v with fingerprint %v, want %v with the first's", answer.State, answer.Fingerprint, dedup.Reused)
	}
	again := ask(t, bounded(t), s, first)
	if again.State != dedup.Claimed || again.Claim.Fence() != held.Fence() {
		t.Errorf("the same owner: %v, want its claim again", again.State)
	}
	_, err := s.Claim(ended, request("b"))
	wantError(t, "another operation whose time is up", err, context.Canceled)

	brief, cancel := context.WithTimeout(bounded(t), 20*time.Millisecond)
	defer cancel()
	_, err = s.Claim(brief, request("b"))
	wantError(t, "another operation that waits for the writer", err, ErrBusy)
	wantError(t, "another operation that waits for the writer", err, context.DeadlineExceeded)
	if err := held.Release(bounded(t)); err != nil {
		t.Error(err)
	}
	wantState(t, s, "b", dedup.Claimed)
}

func TestSettledOnce(t *testing.T) {
	s := open(t)
	ctx := bounded(t)

	c := take(t, ctx, s, "completed")
	mustComplete(t, c, "paid")
	mustComplete(t, c, "something else")
	wantError(t, "Release of a completed claim", c.Release(ctx), dedup.ErrLeaseLost)
	wantError(t, "Renew of a completed claim", c.Renew(ctx, time.Second), dedup.ErrLeaseLost)
	if answer := wantState(t, s, "completed", dedup.Completed); string(answer.Record) != "paid" {
		t.Errorf("record %q, want the first one", answer.Record)
	}

	c = take(t, ctx, s, "released")
	for range 2 {
		if err := c.Release(ctx); err != nil {
			t.Errorf("Release: %v", err)
		}
	}
	wantError(t, "Complete of a released claim", c.Complete(ctx, recorded("paid")), dedup.ErrLeaseLost)
	wantState(t, s, "released", dedup.Claimed)
}

// A completion that is refused undoes the execution and frees the writer.
func TestRefusedCompletion(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for name, complete := range map[string]func(dedup.Claim) error{
		"its context has ended":   func(c dedup.Claim) error { return c.Complete(ended, recorded("paid")) },
		"its retention is short":  func(c dedup.Claim) error { return c.Complete(bounded(t), dedup.Completion{Retention: 1}) },
		"its retention is absent": func(c dedup.Claim) error { return c.Complete(bounded(t), dedup.Completion{}) },
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			c := take(t, bounded(t), s, "a")
			mustWrite(t, c, "m")
			err := complete(c)
			if err == nil {
				t.Fatal("Complete went through")
			}
			if again := complete(c); again == nil || again.Error() != err.Error() {
				t.Errorf("repeated, Complete returned %v, want %v", again, err)
			}
			if err := c.Release(bounded(t)); err != nil {
				t.Errorf("Release of what was undone: %v", err)
			}
			wantEffects(t, s)
			wantState(t, s, "a", dedup.Claimed)
		})
	}
}

func TestRefusedRequests(t *testing.T) {
	s := open(t)
	for name, change := range map[string]func(*dedup.ClaimRequest){
		"no lease":              func(r *dedup.ClaimRequest) { r.Lease = 0 },
		"a negative lease":      func(r *dedup.ClaimRequest) { r.Lease = -time.Second },
		"half a millisecond":    func(r *dedup.ClaimRequest) { r.Lease = time.Millisecond / 2 },
		"a retention too short": func(r *dedup.ClaimRequest) { r.Retention = time.Microsecond },
	} {
		req := request("a")
		change(&req)
		if _, err := s.Claim(bounded(t), req); err == nil || !strings.Contains(err.Error(), "millisecond") {
			t.Errorf("%s: error %v, want one that says what is wrong", name, err)
		}
	}
	wantState(t, s, "a", dedup.Claimed)
}

// Keys are kept byte for byte, and are parted where they are parted.
func TestAwkwardKeys(t *testing.T) {
	s := open(t)
	keys := []dedup.Key{
		{},
		{Scope: "a", Method: "b", ID: "c"},
		{Scope: "ab", Method: "", ID: "c"},
		{Scope: "a", Method: "bc", ID: ""},
		{ID: "x"},
		{ID: "X"},
		{ID: "x\x00"},
		{ID: "x\x00y"},
		{ID: "x "},
		{ID: "\xff"},
		{ID: "\xfe"},
		{ID: "\xff\xff"},
		{ID: "\ufffd"},
		{ID: strings.Repeat("k", 10_000)},
		{ID: "'; DROP TABLE retrysafe_outcome; --"},
	}
	for i, key := range keys {
		req := request("")
		req.Key = key
		answer := ask(t, bounded(t), s, req)
		if answer.State != dedup.Claimed {
			t.Fatalf("key %d is taken for one before it", i)
		}
		mustComplete(t, answer.Claim, string(rune('A'+i)))
	}
	for i, key := range keys {
		req := request("")
		req.Key = key
		if answer := ask(t, bounded(t), s, req); string(answer.Record) != string(rune('A'+i)) {
			t.Errorf("key %d: record %q", i, answer.Record)
		}
	}
}

func TestErrorsDoNotShowTheKey(t *testing.T) {
	s := open(t)
	const secret = "secret-key-4711"
	blocker := take(t, bounded(t), s, "other")
	brief, cancel := context.WithTimeout(bounded(t), 10*time.Millisecond)
	defer cancel()
	_, busy := s.Claim(brief, request(secret))
	if err := blocker.Release(bounded(t)); err != nil {
		t.Fatal(err)
	}
	c := take(t, bounded(t), s, secret)
	short := c.Complete(bounded(t), dedup.Completion{Record: []byte(secret), Retention: 1})
	_, refused := s.Claim(bounded(t), dedup.ClaimRequest{Key: keyOf(secret)})
	for _, err := range []error{busy, short, refused} {
		if err == nil || strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "tenant") {
			t.Errorf("error %q, want one without key and scope", err)
		}
	}
}

// clock is one that a test sets.
type clock struct{ micros atomic.Int64 }

func newClock() *clock {
	c := new(clock)
	c.micros.Store(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).UnixMicro())
	return c
}

func (c *clock) now() time.Time       { return time.UnixMicro(c.micros.Load()) }
func (c *clock) move(d time.Duration) { c.micros.Add(d.Microseconds()) }
func withClock(c *clock) Option       { return func(cfg *config) { cfg.now = c.now } }
func withProbe(f func(string)) Option { return func(cfg *config) { cfg.probe = f } }
func keep(d time.Duration) dedup.Completion {
	return dedup.Completion{Record: []byte("brief"), Retention: d}
}

func TestExpiredIsGone(t *testing.T) {
	clock := newClock()
	s := open(t, withClock(clock))
	c := take(t, bounded(t), s, "a")
	fence := c.Fence()
	if err := c.Complete(bounded(t), keep(time.Second)); err != nil {
		t.Fatal(err)
	}
	clock.move(time.Second - time.Microsecond)
	wantState(t, s, "a", dedup.Completed)
	clock.move(time.Microsecond)

	other := request("a")
	other.Fingerprint = dedup.FingerprintBytes([]byte("another"))
	answer := ask(t, bounded(t), s, other)
	if answer.State != dedup.Claimed {
		t.Fatalf("Claim of what has expired: %v, want %v", answer.State, dedup.Claimed)
	}
	if answer.Claim.Fence() <= fence {
		t.Errorf("fence %d after %d", answer.Claim.Fence(), fence)
	}
	mustComplete(t, answer.Claim, "new")
	if answer := ask(t, bounded(t), s, other); string(answer.Record) != "new" {
		t.Errorf("record %q, want %q", answer.Record, "new")
	}
}

// The fence rises whatever the clock does, and over restarts.
func TestFenceRises(t *testing.T) {
	clock, path := newClock(), databasePath(t)
	s := openAt(t, path, withClock(clock))
	var last uint64
	rises := func(s *Store) {
		t.Helper()
		c := take(t, bounded(t), s, "a")
		if c.Fence() <= last {
			t.Errorf("fence %d after %d", c.Fence(), last)
		}
		last = c.Fence()
		if err := c.Release(bounded(t)); err != nil {
			t.Fatal(err)
		}
	}
	rises(s)
	rises(s)
	clock.move(-time.Hour)
	rises(s)
	clock.move(2 * time.Hour)
	rises(s)
	c := take(t, bounded(t), s, "a")
	last = c.Fence()
	if err := c.Complete(bounded(t), keep(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	clock.move(-time.Hour) // set back by less than what the record shows
	later := newClock()
	later.micros.Store(clock.micros.Load())
	s = openAt(t, path, withClock(later))
	wantState(t, s, "a", dedup.Completed)
	later.move(time.Hour + time.Second)
	rises(s)
}

func TestWaitEndsWithTheClaim(t *testing.T) {
	s := open(t)
	if err := s.Wait(bounded(t), keyOf("a")); err != nil {
		t.Errorf("Wait for nobody: %v", err)
	}
	c := take(t, bounded(t), s, "a")
	brief, cancel := context.WithTimeout(bounded(t), 10*time.Millisecond)
	defer cancel()
	wantError(t, "Wait", s.Wait(brief, keyOf("a")), context.DeadlineExceeded)

	woken := make(chan error, 1)
	go func() { woken <- s.Wait(bounded(t), keyOf("a")) }()
	mustComplete(t, c, "paid")
	if err := <-woken; err != nil {
		t.Errorf("Wait: %v", err)
	}
	wantState(t, s, "a", dedup.Completed)
}

// A storm of duplicates: one executes, all get its record.
func TestStormOfDuplicates(t *testing.T) {
	s := open(t)
	const callers = 64
	var executed atomic.Int32
	results := make(chan error, callers)
	for range callers {
		go func() {
			answer, err := s.Claim(bounded(t), request("a"))
			switch {
			case err != nil:
			case answer.State == dedup.Claimed:
				executed.Add(1)
				err = errors.Join(
					write(answer.Claim.Context(bounded(t)), "m"),
					answer.Claim.Complete(bounded(t), recorded("paid")))
			case answer.State != dedup.Completed || string(answer.Record) != "paid":
				err = errors.New("answered " + answer.State.String())
			}
			results <- err
		}()
	}
	for range callers {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if n := executed.Load(); n != 1 {
		t.Errorf("%d executions, want 1", n)
	}
	wantEffects(t, s, "m")
}
