package demo

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/retrysafe/retrysafe/ledgerdemo/database"
)

// keys are a run's own keys in Redis.
type keys struct {
	at     database.URL
	prefix string
}

// remove removes them all.
func (k *keys) remove(ctx context.Context) (err error) {
	options, err := redis.ParseURL(k.at.Address)
	if err != nil {
		return fmt.Errorf("%v is not the URL of a Redis server", k.at)
	}
	client := redis.NewClient(options)
	defer func() { err = errors.Join(err, client.Close()) }()
	found := client.Scan(ctx, 0, k.prefix+"*", 1000).Iterator()
	for found.Next(ctx) {
		if err := client.Unlink(ctx, found.Val()).Err(); err != nil {
			return fmt.Errorf("remove the keys %s*: %w", k.prefix, err)
		}
	}
	if err := found.Err(); err != nil {
		return fmt.Errorf("remove the keys %s*: %w", k.prefix, err)
	}
	return nil
}
