package redisstore_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/redisstore"
	"github.com/retrysafe/retrysafe/dedup/redisstore/rueidisadapter"
	"github.com/retrysafe/retrysafe/dedup/storetest"
	"github.com/retrysafe/retrysafe/internal/testserver"
)

// open opens one store on a storage, with a client of its own.
type open func(testing.TB, ...redisstore.Option) *redisstore.Store

// newStorage makes a storage from two such stores. When the case is over, all
// that it has left in Redis must have a time to live.
func newStorage(tb testing.TB, open open, servers redis.UniversalClient) storetest.Storage {
	prefix := newPrefix()
	tb.Cleanup(func() { wantTTLs(tb, servers, prefix) })
	both := func(tb testing.TB) (first, second dedup.Store) {
		return open(tb, redisstore.WithPrefix(prefix)), open(tb, redisstore.WithPrefix(prefix))
	}
	first, second := both(tb)
	return storetest.Storage{First: first, Second: second, Restart: both}
}

// wantTTLs fails where a key lives for ever. It removes them all.
func wantTTLs(tb testing.TB, servers redis.UniversalClient, prefix string) {
	ctx := context.Background()
	each := func(ctx context.Context, server *redis.Client) error {
		for keys := server.Scan(ctx, 0, prefix+"*", 1000).Iterator(); keys.Next(ctx); {
			// -1 is for ever; -2 is gone, and 0 in its last millisecond.
			if ttl := server.PTTL(ctx, keys.Val()).Val(); ttl == -1 {
				tb.Errorf("the key %s has no time to live", keys.Val())
			}
			must(tb, server.Unlink(ctx, keys.Val()).Err())
		}
		return nil
	}
	switch servers := servers.(type) {
	case *redis.ClusterClient:
		must(tb, servers.ForEachMaster(ctx, each))
	case *redis.Client:
		must(tb, each(ctx, servers))
	}
}

func onServer(tb testing.TB) storetest.Storage {
	url := testserver.Redis(tb)
	return newStorage(tb, func(tb testing.TB, opts ...redisstore.Option) *redisstore.Store {
		return newStore(tb, newClient(tb, url), opts...)
	}, newClient(tb, url))
}

func onRueidis(tb testing.TB) storetest.Storage {
	url := testserver.Redis(tb)
	return newStorage(tb, func(tb testing.TB, opts ...redisstore.Option) *redisstore.Store {
		return newRueidisStore(tb, url, opts...)
	}, newClient(tb, url))
}

func newRueidisStore(tb testing.TB, url string, opts ...redisstore.Option) *redisstore.Store {
	tb.Helper()
	options, err := rueidis.ParseURL(url)
	must(tb, err)
	client, err := rueidis.NewClient(options)
	must(tb, err)
	tb.Cleanup(client.Close)
	store, err := redisstore.NewWithDriver(tb.Context(), rueidisadapter.New(client), opts...)
	must(tb, err)
	tb.Cleanup(func() { must(tb, store.Close()) })
	return store
}

func TestConformance(t *testing.T) { storetest.Run(t, onServer) }

func TestConformanceThroughRueidis(t *testing.T) { storetest.Run(t, onRueidis) }

func TestConformanceOnACluster(t *testing.T) {
	cluster := testserver.StartRedisCluster(t)
	newCluster := func(tb testing.TB) *redis.ClusterClient {
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), ContextTimeoutEnabled: true})
		tb.Cleanup(func() { must(tb, client.Close()) })
		return client
	}
	storetest.Run(t, func(tb testing.TB) storetest.Storage {
		return newStorage(tb, func(tb testing.TB, opts ...redisstore.Option) *redisstore.Store {
			return newStore(tb, newCluster(tb), opts...)
		}, newCluster(tb))
	})
}

func BenchmarkStore(b *testing.B) { storetest.Bench(b, onServer) }

func BenchmarkStoreThroughRueidis(b *testing.B) { storetest.Bench(b, onRueidis) }
