package gates

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe/bench/internal/measure"
	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/redisstore"
	"github.com/retrysafe/retrysafe/dedup/redisstore/rueidisadapter"
)

// What anybody's Lua would do at the least: take a key that nobody has, and
// exchange what it holds for the outcome.
var (
	bareClaim = redis.NewScript(`
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
return 0`)
	bareComplete = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1`)
)

// redisTrips: an operation in Redis next to two bare Lua calls on the same
// client, and many callers over one connection next to a pool.
func redisTrips(ctx context.Context, m *Machine) (_ []measure.Finding, err error) {
	url, err := m.redisURL()
	if err != nil {
		return nil, err
	}
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	options.ContextTimeoutEnabled = true
	made, err := redisTripsOf(ctx, *options)
	if err != nil {
		return nil, err
	}
	pooled := redis.NewClient(options)
	defer closing(pooled.Close, &err)
	store, err := redisstore.New(ctx, pooled, redisstore.WithPrefix("retrysafe-bench:"))
	if err != nil {
		return nil, err
	}
	defer closing(store.Close, &err)
	piped, closePiped, err := overOneConnection(ctx, url)
	if err != nil {
		return nil, err
	}
	defer closing(closePiped, &err)
	alone, err := m.Plan.Compare(ctx, redisWays(1, pooled, store, piped)...)
	if err != nil {
		return nil, err
	}
	many, err := m.Plan.Compare(ctx, redisWays(64, pooled, store, piped)...)
	return []measure.Finding{
		counted("claim and complete: round trips", made, measure.Equal(2)),
		one("64 callers: claim and complete : two bare Lua calls", many.Ratio("store", "bare"), measure.Times, measure.AtLeast(0.9)),
		one("64 callers: through rueidis : go-redis' pool", many.Ratio("rueidis", "store"), measure.Times, measure.AtLeast(1.4)),
		told("64 callers: go-redis", many.Of("store"), measure.PerSecond),
		told("64 callers: rueidis", many.Of("rueidis"), measure.PerSecond),
		told("a lone caller: claim and complete : two bare Lua calls", alone.Ratio("store", "bare"), measure.Times),
		told("a lone caller: go-redis", alone.Of("store"), measure.PerSecond),
	}, err
}

func redisWays(callers int, client *redis.Client, store, piped dedup.Store) []measure.Way {
	return []measure.Way{
		measure.Throughput("store", callers, func(ctx context.Context) error { return execute(ctx, store) }),
		measure.Throughput("bare", callers, func(ctx context.Context) error { return twoBareCalls(ctx, client) }),
		measure.Throughput("rueidis", callers, func(ctx context.Context) error { return execute(ctx, piped) }),
	}
}

func redisTripsOf(ctx context.Context, options redis.Options) (_ float64, err error) {
	var counter trips
	options.Dialer, options.PoolSize = counter.dial, 1
	client := redis.NewClient(&options)
	defer closing(client.Close, &err)
	store, err := redisstore.New(ctx, client, redisstore.WithPrefix("retrysafe-bench:"))
	if err != nil {
		return 0, err
	}
	defer closing(store.Close, &err)
	if err := execute(ctx, store); err != nil { // loads the script
		return 0, err
	}
	return counter.during(func() error { return execute(ctx, store) })
}

func overOneConnection(ctx context.Context, url string) (*redisstore.Store, func() error, error) {
	options, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, nil, err
	}
	client, err := rueidis.NewClient(options)
	if err != nil {
		return nil, nil, err
	}
	store, err := redisstore.NewWithDriver(ctx, rueidisadapter.New(client), redisstore.WithPrefix("retrysafe-bench:"))
	if err != nil {
		client.Close()
		return nil, nil, err
	}
	return store, func() error { defer client.Close(); return store.Close() }, nil
}

// briefly is how long Redis keeps what rounds write, since they write much.
const briefly = 10 * time.Second

// brief is a completion that is soon forgotten.
var brief = dedup.Completion{Record: record, Retention: briefly}

// execute claims and completes a new operation whose handler does nothing.
func execute(ctx context.Context, store dedup.Store) error {
	request := claimRequest(newKey())
	request.Retention = briefly
	answer, err := store.Claim(ctx, request)
	if err != nil {
		return err
	}
	if answer.State != dedup.Claimed {
		return fmt.Errorf("answered %v", answer.State)
	}
	return answer.Claim.Complete(ctx, brief)
}

// padding makes an owner's token as long as the store's header, 71 bytes.
var padding = string(make([]byte, 71-len(dedup.Owner{})))

// twoBareCalls sends as many bytes as the store does.
func twoBareCalls(ctx context.Context, client *redis.Client) error {
	request := claimRequest(newKey())
	keys, claim := []string{"retrysafe-bench-bare:{" + request.Key.ID + "}"}, string(request.Owner[:])+padding
	err := took(bareClaim.Run(ctx, client, keys, claim, briefly.Milliseconds()))
	if err != nil {
		return err
	}
	return took(bareComplete.Run(ctx, client, keys, claim, claim+string(record), briefly.Milliseconds()))
}

// took is nil where a script answered 1.
func took(reply *redis.Cmd) error {
	n, err := reply.Int()
	if err == nil && n != 1 {
		err = fmt.Errorf("the script answered %d", n)
	}
	return err
}
