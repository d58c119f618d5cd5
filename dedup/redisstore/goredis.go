package redisstore

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Client is what the store uses of go-redis. Each [redis.UniversalClient] is
// one: of a server, of Sentinel, of a Cluster, and a Ring.
type Client interface {
	SetArgs(ctx context.Context, key string, value any, a redis.SetArgs) *redis.StatusCmd
	Get(ctx context.Context, key string) *redis.StringCmd
	EvalSha(ctx context.Context, sha1 string, keys []string, args ...any) *redis.Cmd
	Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd
	Info(ctx context.Context, sections ...string) *redis.StringCmd
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}

var _ Client = (redis.UniversalClient)(nil)

// goRedis is the [Driver] on go-redis.
type goRedis struct{ client Client }

func (g goRedis) SetNew(ctx context.Context, key, value string, ttl time.Duration) (string, bool, error) {
	old, err := g.client.SetArgs(ctx, key, value, redis.SetArgs{Mode: "NX", Get: true, TTL: ttl}).Result()
	return held(old, err)
}

func (g goRedis) Get(ctx context.Context, key string) (string, bool, error) {
	return held(g.client.Get(ctx, key).Result())
}

func held(value string, err error) (string, bool, error) {
	if errors.Is(err, redis.Nil) {
		return "", false, nil
	}
	return value, err == nil, err
}

func (g goRedis) EvalSha(ctx context.Context, sha1 string, keys, args []string) (int64, error) {
	return g.client.EvalSha(ctx, sha1, keys, anys(args)...).Int64()
}

func (g goRedis) Eval(ctx context.Context, script string, keys, args []string) (int64, error) {
	return g.client.Eval(ctx, script, keys, anys(args)...).Int64()
}

func anys(args []string) []any {
	list := make([]any, len(args))
	for i, arg := range args {
		list[i] = arg
	}
	return list
}

type masters interface {
	ForEachMaster(context.Context, func(context.Context, *redis.Client) error) error
}

type shards interface {
	ForEachShard(context.Context, func(context.Context, *redis.Client) error) error
}

var (
	_ masters = (*redis.ClusterClient)(nil)
	_ shards  = (*redis.Ring)(nil)
)

// Info asks each master where the client knows of several.
func (g goRedis) Info(ctx context.Context) ([]string, error) {
	var mu sync.Mutex
	var replies []string
	one := func(ctx context.Context, client *redis.Client) error {
		info, err := client.Info(ctx).Result()
		mu.Lock()
		defer mu.Unlock()
		replies = append(replies, info)
		return err
	}
	var err error
	switch client := g.client.(type) {
	case masters: // a Cluster
		err = client.ForEachMaster(ctx, one)
	case shards: // a Ring
		err = client.ForEachShard(ctx, one)
	default:
		var info string
		info, err = client.Info(ctx).Result()
		replies = []string{info}
	}
	return replies, err
}

// pingInterval is how long nothing is heard before the connection is asked
// whether it is still there.
const pingInterval = 5 * time.Second

var errSilent = errors.New("the connection does not answer")

func (g goRedis) Listen(ctx context.Context, channel string, listening func(), heard func(string)) error {
	subscription := g.client.Subscribe(ctx, channel)
	// A blocked read does not see the end of its context.
	stop := context.AfterFunc(ctx, func() { subscription.Close() })
	defer func() {
		if stop() {
			subscription.Close()
		}
	}()
	for asked := false; ; {
		message, err := subscription.ReceiveTimeout(ctx, pingInterval)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case isTimeout(err) && asked:
			return errSilent
		case isTimeout(err):
			err, asked = subscription.Ping(ctx), true
		case err == nil:
			asked = false
		}
		if err != nil {
			return err
		}
		switch message := message.(type) {
		case *redis.Subscription:
			listening()
		case *redis.Message:
			heard(message.Payload)
		}
	}
}

func isTimeout(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) && netErr.Timeout()
}
