package torture

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/retrysafe/retrysafe/dedup"
)

// withBug is a store with one bug, for tests of the tests.
func withBug(store dedup.Store, c config) dedup.Store { return inPlaceOf(store, buggyStore{store, c}) }

type buggyStore struct {
	dedup.Store
	config
}

func (s buggyStore) Claim(ctx context.Context, req dedup.ClaimRequest) (dedup.Answer, error) {
	answer, err := s.Store.Claim(ctx, req)
	if err == nil && answer.State == dedup.Claimed {
		answer.Claim = buggyClaim{answer.Claim, s.config, req.Key}
	}
	return answer, err
}

type buggyClaim struct {
	dedup.Claim
	config
	key dedup.Key
}

// Context hides the transaction, so that the handler makes its own.
func (c buggyClaim) Context(ctx context.Context) context.Context {
	if c.Bug == recordApart {
		return ctx
	}
	return c.Claim.Context(ctx)
}

// Complete overwrites what a later claim has recorded.
func (c buggyClaim) Complete(ctx context.Context, done dedup.Completion) error {
	err := c.Claim.Complete(ctx, done)
	if c.Bug != noFence || !errors.Is(err, dedup.ErrLeaseLost) {
		return err
	}
	if c.Kind == leasedRedis {
		return c.overwriteRedis(ctx, done.Record)
	}
	pool, err := pgxpool.New(ctx, c.Store)
	if err != nil {
		return err
	}
	defer pool.Close()
	_, err = pool.Exec(ctx, `UPDATE retrysafe_leases SET record = $1 WHERE id = $2`, done.Record, []byte(c.key.ID))
	return err
}

// overwriteRedis overwrites every record: the test has but one operation.
func (c buggyClaim) overwriteRedis(ctx context.Context, record []byte) error {
	const header = 71
	opts, err := redis.ParseURL(c.Store)
	if err != nil {
		return err
	}
	client := redis.NewClient(opts)
	defer client.Close()
	names, err := client.Keys(ctx, "*").Result()
	if err != nil {
		return err
	}
	for _, name := range names {
		value, err := client.Get(ctx, name).Bytes()
		if err != nil {
			return err
		}
		if len(value) > header {
			if err := client.Set(ctx, name, append(value[:header:header], record...), redis.KeepTTL).Err(); err != nil {
				return err
			}
		}
	}
	return nil
}
