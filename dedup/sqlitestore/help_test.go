package sqlitestore

import (
	"context"
	"crypto/rand"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
)

// patience bounds the wait for what must happen.
const patience = 30 * time.Second

func databasePath(t testing.TB) string {
	return filepath.Join(t.TempDir(), "test.db")
}

// openAt opens a store for the test, with a table of effects in it.
func openAt(t testing.TB, path string, opts ...Option) *Store {
	t.Helper()
	s, err := Open(context.Background(), path, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	createEffects(t, s)
	return s
}

func createEffects(t testing.TB, s *Store) {
	t.Helper()
	_, err := s.DB().Exec(`CREATE TABLE IF NOT EXISTS effect (marker TEXT PRIMARY KEY) STRICT`)
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, opts ...Option) *Store {
	t.Helper()
	return openAt(t, databasePath(t), opts...)
}

func newOwner() (owner dedup.Owner) {
	rand.Read(owner[:])
	return owner
}

func keyOf(id string) dedup.Key {
	return dedup.Key{Scope: "tenant", Method: "/test.v1.Test/Case", ID: id}
}

var fingerprint = dedup.FingerprintBytes([]byte("request"))

func request(id string) dedup.ClaimRequest {
	return dedup.ClaimRequest{
		Key: keyOf(id), Fingerprint: fingerprint, Owner: newOwner(),
		Lease: time.Minute, Retention: time.Hour,
	}
}

func recorded(record string) dedup.Completion {
	return dedup.Completion{Record: []byte(record), Retention: time.Hour}
}

func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// ask claims, and fails the test where there is no answer.
func ask(t testing.TB, ctx context.Context, s *Store, req dedup.ClaimRequest) dedup.Answer {
	t.Helper()
	answer, err := s.Claim(ctx, req)
	if err != nil {
		t.Fatalf("Claim: %v", err)
	}
	return answer
}

// take claims what must be free, and releases it at the end of the test.
func take(t testing.TB, ctx context.Context, s *Store, id string) dedup.Claim {
	t.Helper()
	answer := ask(t, ctx, s, request(id))
	if answer.State != dedup.Claimed {
		t.Fatalf("Claim answered %v, want %v", answer.State, dedup.Claimed)
	}
	t.Cleanup(func() { _ = answer.Claim.Release(context.Background()) })
	return answer.Claim
}

// wantState asks for id and checks the answer. What is claimed is released.
func wantState(t testing.TB, s *Store, id string, want dedup.State) dedup.Answer {
	t.Helper()
	answer := ask(t, bounded(t), s, request(id))
	if answer.State != want {
		t.Errorf("Claim answered %v, want %v", answer.State, want)
	}
	if answer.State == dedup.Claimed {
		if err := answer.Claim.Release(context.Background()); err != nil {
			t.Errorf("Release: %v", err)
		}
	}
	return answer
}

// handler returns the context and the transaction of a claim's handler.
func handler(t testing.TB, c dedup.Claim) (context.Context, Querier) {
	t.Helper()
	ctx := c.Context(bounded(t))
	tx, err := Tx(ctx)
	if err != nil {
		t.Fatalf("Tx: %v", err)
	}
	return ctx, tx
}

func write(ctx context.Context, marker string) error {
	tx, err := Tx(ctx)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO effect (marker) VALUES (?)`, marker)
	return err
}

func mustWrite(t testing.TB, c dedup.Claim, marker string) {
	t.Helper()
	if err := write(c.Context(bounded(t)), marker); err != nil {
		t.Fatalf("write: %v", err)
	}
}

func mustComplete(t testing.TB, c dedup.Claim, record string) {
	t.Helper()
	if err := c.Complete(bounded(t), recorded(record)); err != nil {
		t.Fatalf("Complete: %v", err)
	}
}

// wantEffects checks what is committed.
func wantEffects(t testing.TB, s *Store, want ...string) {
	t.Helper()
	got, err := effects(bounded(t), s)
	if err != nil {
		t.Fatal(err)
	}
	if g, w := strings.Join(got, " "), strings.Join(want, " "); g != w {
		t.Errorf("effects %q, want %q", g, w)
	}
}

func effects(ctx context.Context, s *Store) (markers []string, err error) {
	rows, err := s.DB().QueryContext(ctx, `SELECT marker FROM effect ORDER BY marker`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var marker string
		if err := rows.Scan(&marker); err != nil {
			return nil, err
		}
		markers = append(markers, marker)
	}
	return markers, rows.Err()
}

func wantError(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error %v, want %v", what, err, want)
	}
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}
