package sqlitestore_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/sqlitestore"
)

// A debit that arrives twice is made once: the second gets the first's
// outcome.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "ledger")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := sqlitestore.Open(ctx, filepath.Join(dir, "ledger.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	if _, err := store.DB().ExecContext(ctx, `
		CREATE TABLE account (id TEXT PRIMARY KEY, balance INTEGER NOT NULL);
		INSERT INTO account VALUES ('alice', 100)`); err != nil {
		log.Fatal(err)
	}
	engine, err := dedup.NewEngine(store)
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()

	debit := func(ctx context.Context) (dedup.Outcome, error) {
		tx, err := sqlitestore.Tx(ctx)
		if err != nil {
			return dedup.Outcome{}, err
		}
		var balance int
		err = tx.QueryRowContext(ctx,
			`UPDATE account SET balance = balance - ? WHERE id = ? RETURNING balance`, 30, "alice").Scan(&balance)
		return dedup.Outcome{Message: fmt.Sprint("balance ", balance)}, err
	}
	operation := dedup.Operation{Key: dedup.Key{Method: "debit", ID: "order-42"}}
	for range 2 {
		res, err := engine.Do(ctx, operation, debit)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(res.Outcome.Message, "replayed:", res.Replayed)
	}
	// Output:
	// balance 70 replayed: false
	// balance 70 replayed: true
}
