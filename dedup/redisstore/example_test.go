package redisstore_test

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/redisstore"
)

// A message that is delivered twice sends one e-mail.
func Example() {
	ctx := context.Background()
	store, err := redisstore.Open(ctx, exampleURL())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()

	send := func(context.Context) (dedup.Outcome, error) {
		fmt.Println("sending")
		return dedup.Outcome{Code: codes.OK, Message: "sent"}, nil
	}
	operation := dedup.Operation{Key: dedup.Key{Method: "mailer", ID: exampleID()}}
	for range 2 {
		result, err := dedup.Do(ctx, store, operation, send)
		fmt.Println(result.Outcome.Message, result.Replayed, err)
	}
	// Output:
	// sending
	// sent false <nil>
	// sent true <nil>
}
