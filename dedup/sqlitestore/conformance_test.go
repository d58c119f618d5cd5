package sqlitestore

import (
	"context"
	"testing"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/storetest"
)

func TestConformance(t *testing.T) { storetest.Run(t, conformanceStorage) }

func BenchmarkConformance(b *testing.B) { storetest.Bench(b, conformanceStorage) }

// conformanceStorage is two stores on one file, as in two processes.
func conformanceStorage(t testing.TB) storetest.Storage {
	path := databasePath(t)
	first, second := openAt(t, path), openAt(t, path)
	return storetest.Storage{
		First:  first,
		Second: second,
		Effects: &storetest.Effects{
			Write:   write,
			Written: func(ctx context.Context) ([]string, error) { return effects(ctx, first) },
			Fail: func(ctx context.Context) error {
				tx, err := Tx(ctx)
				if err != nil {
					return err
				}
				_, err = tx.ExecContext(ctx, `INSERT INTO effect (marker) VALUES (NULL)`)
				return err
			},
		},
		Restart: func(t testing.TB) (dedup.Store, dedup.Store) {
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			if err := second.Close(); err != nil {
				t.Fatal(err)
			}
			first, second = openAt(t, path), openAt(t, path)
			return first, second
		},
	}
}
