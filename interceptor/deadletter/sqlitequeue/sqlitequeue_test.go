package sqlitequeue_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ncruces/go-sqlite3/driver"

	"github.com/retrysafe/retrysafe/interceptor/deadletter"
	"github.com/retrysafe/retrysafe/interceptor/deadletter/queuetest"
	"github.com/retrysafe/retrysafe/interceptor/deadletter/sqlitequeue"
)

func open(t testing.TB, path string) *sqlitequeue.Queue {
	t.Helper()
	q, err := sqlitequeue.Open(context.Background(), path)
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
	queuetest.Run(t, func(t testing.TB) deadletter.Queue {
		return open(t, filepath.Join(t.TempDir(), "letters.db"))
	})
}

func TestLettersOutliveTheQueue(t *testing.T) {
	path := filepath.Join(t.TempDir(), "letters ?#%41.db") // a name that a URI must escape
	q := open(t, path)
	if err := q.Put(context.Background(), &deadletter.Letter{Id: "1", Attempts: 3}); err != nil {
		t.Fatal(err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, path)
	letter, err := again.Get(context.Background(), "1")
	if err != nil || letter.GetAttempts() != 3 {
		t.Errorf("Get = %v, %v", letter, err)
	}
}

func TestSeveralMayOpenOneFileAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "letters.db")
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			q, err := sqlitequeue.Open(context.Background(), path)
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
	letters, err := open(t, path).List(context.Background(), "", 10)
	if err != nil || len(letters) != 4 {
		t.Errorf("List = %d letters, %v, want 4", len(letters), err)
	}
}

func TestANewerSchemaIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "letters.db")
	open(t, path)
	db, err := driver.Open("file:" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.Exec(`UPDATE retrysafe_letters_schema SET version = 2`); err != nil {
		t.Fatal(err)
	}
	_, err = sqlitequeue.New(context.Background(), db)
	if err == nil || !strings.Contains(err.Error(), "schema version 2") {
		t.Errorf("New on a newer schema: %v", err)
	}
}

// A damaged letter must not hide behind an error that does not say which it is.
func TestADamagedLetterIsNamed(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "letters.db")
	q := open(t, path)
	for _, id := range []string{"1", "2"} {
		if err := q.Put(ctx, &deadletter.Letter{Id: id}); err != nil {
			t.Fatal(err)
		}
	}
	db, err := driver.Open("file:" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.Exec(`UPDATE retrysafe_letters SET letter = x'ff' WHERE id = '1'`); err != nil {
		t.Fatal(err)
	}
	_, getErr := q.Get(ctx, "1")
	_, listErr := q.List(ctx, "", 10)
	for op, err := range map[string]error{"Get": getErr, "List": listErr} {
		if err == nil || !strings.Contains(err.Error(), `letter "1"`) {
			t.Errorf("%s: %v, want an error that names the letter", op, err)
		}
	}
	if err := q.Remove(ctx, "1"); err != nil {
		t.Fatal(err)
	}
	if letters, err := q.List(ctx, "", 10); err != nil || len(letters) != 1 {
		t.Errorf("List = %d letters, %v once it is removed", len(letters), err)
	}
}

func TestOpenNeedsAFile(t *testing.T) {
	for _, path := range []string{"", ":memory:", filepath.Join(t.TempDir(), "no", "such", "folder", "letters.db")} {
		q, err := sqlitequeue.Open(context.Background(), path)
		if err == nil {
			_ = q.Close()
			t.Errorf("Open(%q) succeeded", path)
		}
	}
}

func TestNewNeedsADatabase(t *testing.T) {
	if _, err := sqlitequeue.New(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "db is nil") {
		t.Error(err)
	}
}
