package pgstore_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/pgstore"
)

func TestMistakesAreReportedTogetherAndByName(t *testing.T) {
	opts := []pgstore.Option{nil,
		pgstore.WithSchema(strings.Repeat("x", 64)), pgstore.WithIsolation("chaos"),
		pgstore.WithSweepInterval(-1), pgstore.WithSweepBatch(-1),
	}
	_, newErr := pgstore.New(nil, opts...)
	_, leasedErr := pgstore.NewLeased(nil, opts...)
	for name, err := range map[string]error{"New": newErr, "NewLeased": leasedErr} {
		if err == nil {
			t.Fatalf("%s: went through", name)
		}
		for _, want := range []string{name + ": the pool is nil", "WithSchema", "WithIsolation", "WithSweepInterval", "WithSweepBatch"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is not in %q", name, want, err)
			}
		}
	}
	for _, schema := range []string{"", "a\x00b", "\xff"} {
		if _, err := pgstore.New(nil, pgstore.WithSchema(schema)); !strings.Contains(err.Error(), "WithSchema") {
			t.Errorf("%q: %v", schema, err)
		}
	}
	if err := pgstore.Migrate(t.Context(), nil, pgstore.WithSchema("")); err == nil {
		t.Error("Migrate: went through")
	}
}

func TestALeasedStoreHasNoIsolationLevel(t *testing.T) {
	db := newDatabase(t)
	if _, err := pgstore.NewLeased(db.admin, pgstore.WithIsolation(pgx.Serializable)); err == nil {
		t.Error("went through")
	}
}

func TestPromises(t *testing.T) {
	db := newDatabase(t)
	if p := db.store(db.admin).Promise(); p != dedup.ExactlyOnce {
		t.Errorf("Store promises %v", p)
	}
	if p := db.leased(db.admin).Promise(); p != dedup.OneAtATime {
		t.Errorf("Leased promises %v", p)
	}
}
