// Package rueidisadapter lets a dedup/redisstore use a client of rueidis, which
// sends the commands of many callers over one connection.
//
//	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"localhost:6379"}})
//	store, err := redisstore.NewWithDriver(ctx, rueidisadapter.New(client))
package rueidisadapter

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe/dedup/redisstore"
)

// Driver is a [redisstore.Driver] on a client of rueidis: of a server, of
// Sentinel or of a Cluster.
type Driver struct{ client rueidis.Client }

var _ redisstore.Driver = (*Driver)(nil)

// New returns a driver on client, which stays the caller's to close, after the
// store.
func New(client rueidis.Client) *Driver { return &Driver{client: client} }

// SetNew implements [redisstore.Driver].
func (d *Driver) SetNew(ctx context.Context, key, value string, ttl time.Duration) (string, bool, error) {
	return held(d.client.Do(ctx, d.client.B().Set().Key(key).Value(value).Nx().Get().
		PxMilliseconds(ttl.Milliseconds()).Build()))
}

// Get implements [redisstore.Driver].
func (d *Driver) Get(ctx context.Context, key string) (string, bool, error) {
	return held(d.client.Do(ctx, d.client.B().Get().Key(key).Build()))
}

func held(result rueidis.RedisResult) (string, bool, error) {
	value, err := result.ToString()
	if rueidis.IsRedisNil(err) {
		return "", false, nil
	}
	return value, err == nil, err
}

// EvalSha implements [redisstore.Driver].
func (d *Driver) EvalSha(ctx context.Context, sha1 string, keys, args []string) (int64, error) {
	return d.eval(ctx, "EVALSHA", sha1, keys, args)
}

// Eval implements [redisstore.Driver].
func (d *Driver) Eval(ctx context.Context, script string, keys, args []string) (int64, error) {
	return d.eval(ctx, "EVAL", script, keys, args)
}

func (d *Driver) eval(ctx context.Context, command, script string, keys, args []string) (int64, error) {
	return d.client.Do(ctx, d.client.B().Arbitrary(command).Args(script, strconv.Itoa(len(keys))).
		Keys(keys...).Args(args...).Build()).AsInt64()
}

// Info implements [redisstore.Driver].
func (d *Driver) Info(ctx context.Context) ([]string, error) {
	var replies []string
	for address, node := range d.client.Nodes() {
		info, err := node.Do(ctx, node.B().Info().Build()).ToString()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", address, err)
		}
		if strings.Contains(info, "\nrole:master") {
			replies = append(replies, info)
		}
	}
	return replies, nil
}

// Listen implements [redisstore.Driver].
func (d *Driver) Listen(ctx context.Context, channel string, listening func(), heard func(string)) error {
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(s rueidis.PubSubSubscription) {
		if s.Kind == "subscribe" {
			listening()
		}
	})
	return d.client.Receive(hooked, d.client.B().Subscribe().Channel(channel).Build(), func(m rueidis.PubSubMessage) {
		heard(m.Message)
	})
}
