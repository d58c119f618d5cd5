// Package queuetest checks that a queue of dead letters does what
// [deadletter.Queue] says.
package queuetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrysafe/retrysafe/interceptor/deadletter"
)

// Run runs the suite. newQueue returns an empty queue each time, and closes it
// when the test ends.
func Run(t *testing.T, newQueue func(testing.TB) deadletter.Queue) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, deadletter.Queue)
	}{
		{"a letter comes back as it was put", comesBack},
		{"putting an id again changes nothing", putTwice},
		{"a letter without an id is refused", noID},
		{"letters are listed in order, a page at a time", listed},
		{"an update replaces the letter", updated},
		{"a removed letter is gone", removed},
		{"an id that is not there is not found", notFound},
		{"a cancelled context changes nothing", cancelled},
		{"many put at once", concurrent},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, newQueue(t)) })
	}
}

func letter(t testing.TB, id string) *deadletter.Letter {
	t.Helper()
	request, err := anypb.New(wrapperspb.Bytes([]byte{0, 1, 0xff}))
	if err != nil {
		t.Fatal(err)
	}
	return &deadletter.Letter{
		Id:               id,
		Target:           "dns:///ledger",
		Method:           "/ledger.v1.LedgerService/Debit",
		Request:          request,
		IdempotencyKey:   "'; DROP TABLE retrysafe_letters; --",
		Reason:           "DEADLINE",
		Attempts:         3,
		FirstAttemptTime: timestamppb.New(timestamppb.Now().AsTime()),
		LastAttemptTime:  timestamppb.Now(),
		LastStatus:       &deadletter.Status{Code: 14, Message: "down\x00", Details: []*anypb.Any{request}},
	}
}

func put(t testing.TB, q deadletter.Queue, letters ...*deadletter.Letter) {
	t.Helper()
	for _, l := range letters {
		if err := q.Put(context.Background(), l); err != nil {
			t.Fatalf("Put: %v", err)
		}
	}
}

func want(t testing.TB, q deadletter.Queue, letter *deadletter.Letter) {
	t.Helper()
	got, err := q.Get(context.Background(), letter.GetId())
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	if !proto.Equal(got, letter) {
		t.Errorf("Get = %v\nwant %v", got, letter)
	}
}

func comesBack(t *testing.T, q deadletter.Queue) {
	for i, id := range []string{"1", "an id with spaces", "ünï", "'; --"} {
		l := letter(t, id)
		l.Attempts = uint32(i)
		put(t, q, l)
		want(t, q, l)
	}
	bare := &deadletter.Letter{Id: "bare"}
	put(t, q, bare)
	want(t, q, bare)
}

func putTwice(t *testing.T, q deadletter.Queue) {
	first := letter(t, "1")
	second := letter(t, "1")
	second.Attempts = 99
	put(t, q, first, second)
	want(t, q, first)
}

func noID(t *testing.T, q deadletter.Queue) {
	if err := q.Put(context.Background(), letter(t, "")); err == nil {
		t.Error("Put of a letter without an id succeeded")
	}
	wantIDs(t, q, "", 10)
}

func wantIDs(t testing.TB, q deadletter.Queue, after string, limit int, ids ...string) {
	t.Helper()
	letters, err := q.List(context.Background(), after, limit)
	if err != nil {
		t.Fatalf("List: %v", err)
	}
	var got []string
	for _, l := range letters {
		got = append(got, l.GetId())
	}
	if fmt.Sprint(got) != fmt.Sprint(ids) {
		t.Errorf("List(%q, %d) = %q, want %q", after, limit, got, ids)
	}
}

func listed(t *testing.T, q deadletter.Queue) {
	wantIDs(t, q, "", 10)
	// Upper case before lower: the order is that of the bytes.
	for _, id := range []string{"c", "B", "a", "d", "Z"} {
		put(t, q, letter(t, id))
	}
	wantIDs(t, q, "", 10, "B", "Z", "a", "c", "d")
	wantIDs(t, q, "", 2, "B", "Z")
	wantIDs(t, q, "Z", 2, "a", "c")
	wantIDs(t, q, "c", 2, "d")
	wantIDs(t, q, "d", 2)
	wantIDs(t, q, "b", 1, "c")
	wantIDs(t, q, "", 0)
	wantIDs(t, q, "", -1)
}

func updated(t *testing.T, q deadletter.Queue) {
	put(t, q, letter(t, "1"), letter(t, "2"))
	changed := letter(t, "1")
	changed.Attempts, changed.LastStatus = 4, nil
	if err := q.Update(context.Background(), changed); err != nil {
		t.Fatalf("Update: %v", err)
	}
	want(t, q, changed)
	wantIDs(t, q, "", 10, "1", "2")
}

func removed(t *testing.T, q deadletter.Queue) {
	put(t, q, letter(t, "1"), letter(t, "2"))
	if err := q.Remove(context.Background(), "1"); err != nil {
		t.Fatalf("Remove: %v", err)
	}
	wantIDs(t, q, "", 10, "2")
	if err := q.Remove(context.Background(), "1"); !errors.Is(err, deadletter.ErrNotFound) {
		t.Errorf("second Remove: %v, want ErrNotFound", err)
	}
}

func notFound(t *testing.T, q deadletter.Queue) {
	put(t, q, letter(t, "1"))
	_, err := q.Get(context.Background(), "2")
	for op, err := range map[string]error{
		"Get":    err,
		"Update": q.Update(context.Background(), letter(t, "2")),
		"Remove": q.Remove(context.Background(), "2"),
	} {
		if !errors.Is(err, deadletter.ErrNotFound) {
			t.Errorf("%s: %v, want ErrNotFound", op, err)
		}
	}
	wantIDs(t, q, "", 10, "1")
}

func cancelled(t *testing.T, q deadletter.Queue) {
	put(t, q, letter(t, "1"))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	changed := letter(t, "1")
	changed.Attempts = 99
	for op, err := range map[string]error{
		"Put":    q.Put(ctx, letter(t, "2")),
		"Update": q.Update(ctx, changed),
		"Remove": q.Remove(ctx, "1"),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want context.Canceled", op, err)
		}
	}
	wantIDs(t, q, "", 10, "1")
	got, err := q.Get(context.Background(), "1")
	if err != nil || got.GetAttempts() == 99 {
		t.Errorf("Get = %v, %v after a cancelled update", got.GetAttempts(), err)
	}
}

func concurrent(t *testing.T, q deadletter.Queue) {
	const n = 32
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			// Each id is put by two at once.
			l := letter(t, fmt.Sprintf("%02d", i/2))
			if err := q.Put(context.Background(), l); err != nil {
				t.Errorf("Put: %v", err)
			}
		})
	}
	wg.Wait()
	letters, err := q.List(context.Background(), "", n)
	if err != nil || len(letters) != n/2 {
		t.Errorf("List = %d letters, %v, want %d", len(letters), err, n/2)
	}
}
