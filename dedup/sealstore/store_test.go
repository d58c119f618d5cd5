package sealstore

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
)

// execute runs an operation that answers with a response, and says whether it
// ran.
func execute(t *testing.T, store dedup.Store, id, response string) (dedup.Result, bool, error) {
	t.Helper()
	op := dedup.Operation{Key: dedup.Key{Scope: operation.Scope, Method: operation.Method, ID: id}}
	ran := false
	res, err := dedup.Do(t.Context(), store, op, func(context.Context) (dedup.Outcome, error) {
		ran = true
		return dedup.Outcome{Response: dedup.Payload{Type: "text", Value: []byte(response)}}, nil
	})
	return res, ran, err
}

// kept returns what a store has for an operation.
func kept(t *testing.T, store dedup.Store, id string) []byte {
	t.Helper()
	answer, err := store.Claim(t.Context(), dedup.ClaimRequest{
		Key:   dedup.Key{Scope: operation.Scope, Method: operation.Method, ID: id},
		Lease: time.Minute, Retention: time.Hour,
	})
	if err != nil || answer.State != dedup.Completed {
		t.Fatalf("answered %v, %v", answer.State, err)
	}
	return answer.Record
}

func TestAResponseIsKeptSealedAndReplayed(t *testing.T) {
	memory := dedup.NewMemory()
	store := seal(t, memory, []Key{newKey(1)})
	if _, ran, err := execute(t, store, "a", "the balance"); err != nil || !ran {
		t.Fatal(ran, err)
	}
	if bytes.Contains(kept(t, memory, "a"), []byte("the balance")) {
		t.Error("the response is kept as it is")
	}
	res, ran, err := execute(t, store, "a", "another")
	if err != nil || ran || !res.Replayed || string(res.Outcome.Response.Value) != "the balance" {
		t.Errorf("a repeat: %+v, ran %v, %v", res, ran, err)
	}
}

func TestWhatCannotBeOpenedIsNotExecutedAgain(t *testing.T) {
	tests := []struct {
		name      string
		writes    func(*dedup.Memory) dedup.Store
		wantInLog string
	}{
		{"a key that is not there", func(m *dedup.Memory) dedup.Store { return seal(t, m, []Key{newKey(2)}) }, "the key 2"},
		{"another key of the same ID", func(m *dedup.Memory) dedup.Store { return seal(t, m, []Key{newKey(1)}) }, "changed"},
		{"a record that is not sealed", func(m *dedup.Memory) dedup.Store { return m }, "not sealed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			memory := dedup.NewMemory()
			if _, _, err := execute(t, tt.writes(memory), "order-42", "the balance"); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			store := seal(t, memory, []Key{newKey(1)}, WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
			_, ran, err := execute(t, store, "order-42", "another")
			if ran || !errors.Is(err, dedup.ErrRecordUnreadable) {
				t.Errorf("ran %v, %v", ran, err)
			}
			if text := log.String(); !strings.Contains(text, tt.wantInLog) || strings.Contains(text, "order-42") || strings.Contains(text, "balance") {
				t.Errorf("logged %s", text)
			}
		})
	}
}

func TestPlainRecordsAreReadWhereThatIsAllowed(t *testing.T) {
	memory := dedup.NewMemory()
	if _, _, err := execute(t, memory, "before", "the balance"); err != nil {
		t.Fatal(err)
	}
	store := seal(t, memory, []Key{newKey(1)}, WithPlain())
	res, ran, err := execute(t, store, "before", "another")
	if err != nil || ran || string(res.Outcome.Response.Value) != "the balance" {
		t.Errorf("%+v, ran %v, %v", res, ran, err)
	}
	if _, _, err := execute(t, store, "after", "the balance"); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(kept(t, memory, "after"), []byte("the balance")) {
		t.Error("a new record is kept as it is")
	}
}

func TestARecordMovedToAnotherOperationIsNotReplayed(t *testing.T) {
	memory := dedup.NewMemory()
	store := seal(t, memory, []Key{newKey(1)})
	if _, _, err := execute(t, store, "mine", "the balance"); err != nil {
		t.Fatal(err)
	}
	answer, err := memory.Claim(t.Context(), dedup.ClaimRequest{
		Key:   dedup.Key{Scope: operation.Scope, Method: operation.Method, ID: "yours"},
		Owner: dedup.Owner{1}, Lease: time.Minute, Retention: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := answer.Claim.Complete(t.Context(), dedup.Completion{Record: kept(t, memory, "mine"), Retention: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if _, ran, err := execute(t, store, "yours", "another"); ran || !errors.Is(err, dedup.ErrRecordUnreadable) {
		t.Errorf("ran %v, %v", ran, err)
	}
}

// plainStore cannot wake those who wait.
type plainStore struct{ dedup.Store }

// repeater is a claim that notes what it is completed with.
type repeater struct {
	dedup.Claim
	given [][]byte
}

func (r *repeater) Complete(_ context.Context, c dedup.Completion) error {
	r.given = append(r.given, c.Record)
	return nil
}

func TestWakingIsAsBefore(t *testing.T) {
	memory := dedup.NewMemory()
	if _, ok := seal(t, memory, []Key{newKey(1)}).(dedup.Waiter); !ok {
		t.Error("a store that wakes no longer does")
	}
	if _, ok := seal(t, plainStore{memory}, []Key{newKey(1)}).(dedup.Waiter); ok {
		t.Error("a store that does not wake claims to")
	}
}

func TestACompletionThatIsRepeatedIsTheSame(t *testing.T) {
	inner := &repeater{}
	c := &claim{Claim: inner, ring: ring(t, newKey(1)), op: operation}
	for _, record := range []string{"", "", "paid", "paid", "too large"} {
		if err := c.Complete(t.Context(), dedup.Completion{Record: []byte(record)}); err != nil {
			t.Fatal(err)
		}
	}
	for i, same := range []bool{true, false, true, false} {
		if bytes.Equal(inner.given[i], inner.given[i+1]) != same {
			t.Errorf("completions %d and %d: same: %v", i, i+1, !same)
		}
	}
}
