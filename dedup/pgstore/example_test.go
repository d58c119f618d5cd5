package pgstore_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/pgstore"
)

// A debit that is asked for twice takes the money once.
func Example() {
	url, done := exampleDatabase()
	defer done()
	ctx := context.Background()
	store, err := pgstore.Open(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	if _, err := store.Pool().Exec(ctx, "CREATE TABLE accounts (id text PRIMARY KEY, balance bigint NOT NULL);"+
		"INSERT INTO accounts VALUES ('alice', 100)"); err != nil {
		log.Fatal(err)
	}
	engine, err := dedup.NewEngine(store)
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()

	debit := dedup.Operation{
		Key:         dedup.Key{Method: "debit", ID: "order-42"},
		Fingerprint: dedup.FingerprintBytes([]byte("alice pays 30")),
	}
	for range 2 {
		result, err := engine.Do(ctx, debit, func(ctx context.Context) (dedup.Outcome, error) {
			tx, err := pgstore.Tx(ctx)
			if err != nil {
				return dedup.Outcome{}, err
			}
			var balance int
			err = tx.QueryRow(ctx, "UPDATE accounts SET balance = balance - 30 WHERE id = 'alice' RETURNING balance").Scan(&balance)
			return dedup.Outcome{Message: fmt.Sprintf("%d are left", balance)}, err
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s, replayed %v\n", result.Outcome.Message, result.Replayed)
	}
	// Output:
	// 70 are left, replayed false
	// 70 are left, replayed true
}

// A handler that is nothing but SQL takes one round trip.
func ExampleStore_Once() {
	url, done := exampleDatabase()
	defer done()
	ctx := context.Background()
	store, err := pgstore.Open(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	// The constraint is what refuses a debit that may not take effect.
	if _, err := store.Pool().Exec(ctx, "CREATE TABLE accounts (id text PRIMARY KEY, balance bigint NOT NULL CHECK (balance >= 0));"+
		"INSERT INTO accounts VALUES ('alice', 100)"); err != nil {
		log.Fatal(err)
	}
	for range 2 {
		var statements pgx.Batch
		statements.Queue("UPDATE accounts SET balance = balance - $1 WHERE id = $2", 80, "alice")
		result, err := store.Once(ctx, pgstore.Batch{
			Key:         dedup.Key{Method: "debit", ID: "order-42"},
			Fingerprint: dedup.FingerprintBytes([]byte("alice pays 80")),
			Retention:   24 * time.Hour,
			Statements:  &statements,
			RecordSQL:   "SELECT convert_to(balance || ' are left', 'UTF8') FROM accounts WHERE id = $1",
			RecordArgs:  []any{"alice"},
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s, replayed %v\n", result.Record, result.Replayed)
	}
	// Output:
	// 20 are left, replayed false
	// 20 are left, replayed true
}
