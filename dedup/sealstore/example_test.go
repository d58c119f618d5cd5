package sealstore_test

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/sealstore"
)

func ExampleNew() {
	secret := make([]byte, 32)
	rand.Read(secret) // in a real program it comes from where secrets are kept
	store, err := sealstore.New(dedup.NewMemory(), []sealstore.Key{{ID: 1, Secret: secret}})
	if err != nil {
		fmt.Println(err)
		return
	}
	op := dedup.Operation{Key: dedup.Key{Method: "/ledger.v1.LedgerService/Debit", ID: "order-42"}}
	for range 2 {
		res, err := dedup.Do(context.Background(), store, op, func(context.Context) (dedup.Outcome, error) {
			fmt.Println("debited")
			return dedup.Outcome{Message: "done"}, nil
		})
		fmt.Println(res.Outcome.Message, res.Replayed, err)
	}
	// Output:
	// debited
	// done false <nil>
	// done true <nil>
}
