package rueidisadapter_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe/dedup/redisstore"
	"github.com/retrysafe/retrysafe/dedup/redisstore/rueidisadapter"
)

func ExampleNew() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	options, err := rueidis.ParseURL(exampleURL())
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := rueidis.NewClient(options)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	store, err := redisstore.NewWithDriver(ctx, rueidisadapter.New(client))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	fmt.Println(store.Promise())
	// Output: at most one at a time
}
