package pgstore_test

import (
	"strings"
	"testing"
	"time"

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

func TestPartitionsThatCannotBeAreRefused(t *testing.T) {
	for want, opts := range map[string][]pgstore.Option{
		"-1ns is negative":        {pgstore.WithPartitions(-1)},
		"59s is less than 1m0s":   {pgstore.WithPartitions(59 * time.Second)},
		"1m0.5s is not a number":  {pgstore.WithPartitions(time.Minute + time.Second/2)},
		`WithIsolation("serializ`: {partitioned, pgstore.WithIsolation(pgx.Serializable)},
		`WithIsolation("repeatab`: {partitioned, pgstore.WithIsolation(pgx.RepeatableRead)},
	} {
		_, newErr := pgstore.New(nil, opts...)
		for name, err := range map[string]error{"New": newErr, "Migrate": pgstore.Migrate(t.Context(), nil, opts...)} {
			if err == nil || !strings.Contains(err.Error(), "WithPartitions: ") || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want %q", name, err, want)
			}
		}
	}
	if _, err := pgstore.NewLeased(nil, partitioned); !strings.Contains(err.Error(), "WithPartitions") {
		t.Errorf("a leased store: %v", err)
	}
	if _, err := pgstore.New(nil, partitioned, pgstore.WithIsolation(pgx.ReadCommitted)); strings.Contains(err.Error(), "With") {
		t.Errorf("READ COMMITTED: %v", err)
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
