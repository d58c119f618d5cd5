package sealstore

import (
	"context"
	"crypto/rand"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/sqlitestore"
	"github.com/retrysafe/retrysafe/dedup/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newKey makes a key with that ID.
func newKey(id uint32) Key {
	secret := make([]byte, secretSize)
	rand.Read(secret) // never fails, by its documentation
	return Key{ID: id, Secret: secret}
}

func seal(t testing.TB, store dedup.Store, keys []Key, opts ...Option) dedup.Store {
	t.Helper()
	s, err := New(store, keys, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConformanceOverMemory(t *testing.T) { storetest.Run(t, overMemory) }

func BenchmarkOverMemory(b *testing.B) { storetest.Bench(b, overMemory) }

func overMemory(t testing.TB) storetest.Storage {
	store := seal(t, dedup.NewMemory(dedup.WithMaxBytes(1<<30)), []Key{newKey(1)})
	return storetest.Storage{First: store, Second: store}
}

func TestConformanceOverATransactionalStore(t *testing.T) { storetest.Run(t, overSQLite) }

// overSQLite is two stores on one file, as in two processes, in the middle of a
// change of the key.
func overSQLite(t testing.TB) storetest.Storage {
	path := filepath.Join(t.TempDir(), "test.db")
	before, now := newKey(1), newKey(2)
	f := &files{path: path}
	f.open(t)
	sealed := func(t testing.TB) (dedup.Store, dedup.Store) {
		return seal(t, f.first, []Key{before, now}), seal(t, f.second, []Key{now, before})
	}
	first, second := sealed(t)
	return storetest.Storage{
		First: first, Second: second,
		Effects: &storetest.Effects{
			Write:   func(ctx context.Context, marker string) error { return insert(ctx, marker) },
			Fail:    func(ctx context.Context) error { return insert(ctx, nil) },
			Written: func(ctx context.Context) ([]string, error) { return f.markers(ctx) },
		},
		Restart: func(t testing.TB) (dedup.Store, dedup.Store) {
			f.close(t)
			f.open(t)
			return sealed(t)
		},
	}
}

// files is the storage of two SQLite stores.
type files struct {
	path          string
	first, second *sqlitestore.Store
}

func (f *files) open(t testing.TB) {
	t.Helper()
	for _, store := range []**sqlitestore.Store{&f.first, &f.second} {
		opened, err := sqlitestore.Open(context.Background(), f.path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { opened.Close() })
		*store = opened
	}
	if _, err := f.first.DB().Exec(`CREATE TABLE IF NOT EXISTS effect (marker TEXT NOT NULL PRIMARY KEY)`); err != nil {
		t.Fatal(err)
	}
}

func (f *files) close(t testing.TB) {
	t.Helper()
	for _, store := range []*sqlitestore.Store{f.first, f.second} {
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func (f *files) markers(ctx context.Context) ([]string, error) {
	rows, err := f.first.DB().QueryContext(ctx, `SELECT marker FROM effect`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var markers []string
	for rows.Next() {
		var marker string
		if err := rows.Scan(&marker); err != nil {
			return nil, err
		}
		markers = append(markers, marker)
	}
	return markers, rows.Err()
}

func insert(ctx context.Context, marker any) error {
	tx, err := sqlitestore.Tx(ctx)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO effect (marker) VALUES (?)`, marker)
	return err
}
