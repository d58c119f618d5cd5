package pgqueue_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/interceptor/deadletter"
	"github.com/retrysafe/retrysafe/interceptor/deadletter/pgqueue"
	"github.com/retrysafe/retrysafe/interceptor/deadletter/queuetest"
	"github.com/retrysafe/retrysafe/internal/testserver"
)

func open(t testing.TB, url string) *pgqueue.Queue {
	t.Helper()
	q, err := pgqueue.Open(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	return q
}

func TestQueue(t *testing.T) {
	queuetest.Run(t, func(t testing.TB) deadletter.Queue { return open(t, testserver.Postgres(t)) })
}

func TestReplicasMayStartTogether(t *testing.T) {
	url := testserver.Postgres(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			q, err := pgqueue.Open(context.Background(), url)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = q.Close() }()
			if err := q.Put(context.Background(), &deadletter.Letter{Id: fmt.Sprint(i)}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	letters, err := open(t, url).List(context.Background(), "", 10)
	if err != nil || len(letters) != 8 {
		t.Errorf("List = %d letters, %v, want 8", len(letters), err)
	}
}

func TestABorrowedPoolStaysOpen(t *testing.T) {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, testserver.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	q, err := pgqueue.New(ctx, pool)
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if err := pool.Ping(ctx); err != nil {
		t.Errorf("the pool after Close of the queue: %v", err)
	}
}

func TestANewerSchemaIsRefused(t *testing.T) {
	ctx := context.Background()
	url := testserver.Postgres(t)
	open(t, url)
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, `UPDATE retrysafe_letters_schema SET version = 2`); err != nil {
		t.Fatal(err)
	}
	if _, err := pgqueue.New(ctx, pool); err == nil || !strings.Contains(err.Error(), "schema version 2") {
		t.Errorf("New on a newer schema: %v", err)
	}
}

func TestAServerThatIsNotThereIsAnError(t *testing.T) {
	server := testserver.StartPostgres(t)
	q := open(t, server.URL())
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := q.Put(context.Background(), &deadletter.Letter{Id: "1"}); err == nil {
		t.Error("Put succeeded")
	}
	if _, err := pgqueue.Open(context.Background(), server.URL()); err == nil {
		t.Error("Open succeeded")
	}
}

func TestNewNeedsAPool(t *testing.T) {
	if _, err := pgqueue.New(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "pool is nil") {
		t.Error(err)
	}
}
