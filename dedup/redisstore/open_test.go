package redisstore_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/redisstore"
	"github.com/retrysafe/retrysafe/internal/testserver"
)

// told is a driver of which the servers are as their INFO says.
type told struct {
	redisstore.Driver
	info []string
	err  error
}

func (d told) Info(context.Context) ([]string, error) { return d.info, d.err }

func info(version, policy string) string {
	return "# Server\r\nredis_version:" + version + "\r\n# Memory\r\nmaxmemory_policy:" + policy + "\r\n"
}

func TestServersThatWouldBreakThePromiseAreRefused(t *testing.T) {
	for _, test := range []struct {
		name    string
		servers told
		want    []string // what the error says; none: it is fit
	}{
		{"7.0", told{info: []string{info("7.0.0", "noeviction")}}, nil},
		{"newer", told{info: []string{info("10.2.1", "noeviction")}}, nil},
		{"older", told{info: []string{info("6.2.14", "noeviction")}}, []string{`"6.2.14"`, "7.0"}},
		{"no version", told{info: []string{info("", "noeviction")}}, []string{"7.0"}},
		{"evicting by least use", told{info: []string{info("7.0.0", "allkeys-lru")}}, []string{"allkeys-lru", "noeviction"}},
		{"evicting by time to live", told{info: []string{info("7.0.0", "volatile-ttl")}}, []string{"volatile-ttl", "noeviction"}},
		{"no policy", told{info: []string{"redis_version:7.0.0\r\n"}}, []string{"maxmemory-policy", "noeviction"}},
		{"one master of two", told{info: []string{info("7.0.0", "noeviction"), info("7.0.0", "volatile-lru")}}, []string{"volatile-lru"}},
		{"old and evicting", told{info: []string{info("6.0.0", "allkeys-lfu")}}, []string{"6.0.0", "allkeys-lfu"}},
		{"no master", told{}, []string{"no master"}},
		{"no answer", told{err: errors.New("connection refused")}, []string{"INFO", "connection refused"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			store, err := redisstore.NewWithDriver(t.Context(), test.servers)
			if len(test.want) == 0 {
				must(t, err)
				must(t, store.Close())
				return
			}
			if err == nil {
				t.Fatal("it was taken")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %s", err, want)
				}
			}
		})
	}
}

func TestARealServerThatEvictsIsRefused(t *testing.T) {
	server := testserver.StartRedis(t, "maxmemory-policy allkeys-lru")
	if _, err := redisstore.New(t.Context(), newClient(t, server.URL())); err == nil {
		t.Error("New: it was taken")
	}
	if _, err := redisstore.Open(t.Context(), server.URL()); err == nil {
		t.Error("Open: it was taken")
	}
}

func TestEachMasterOfAClusterIsLookedAt(t *testing.T) {
	cluster := testserver.StartRedisCluster(t)
	last := newClient(t, cluster.Nodes[2].URL())
	must(t, last.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-random").Err())
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()})
	t.Cleanup(func() { must(t, client.Close()) })
	if _, err := redisstore.New(t.Context(), client); err == nil || !strings.Contains(err.Error(), "allkeys-random") {
		t.Errorf("error %v, want the policy of the last master", err)
	}
}

func TestMistakesAreReportedTogether(t *testing.T) {
	_, err := redisstore.New(t.Context(), nil, redisstore.WithPrefix("{tag}"))
	if err == nil || !strings.Contains(err.Error(), "WithPrefix") || !strings.Contains(err.Error(), "client is nil") {
		t.Errorf("error %v, want one of WithPrefix and one of the client", err)
	}
	if _, err := redisstore.NewWithDriver(t.Context(), told{}, redisstore.WithPrefix("")); err == nil {
		t.Error("an empty prefix was taken")
	}
	_, err = redisstore.Open(t.Context(), "://user:secret@host")
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("error %v, want one without the password", err)
	}
}

func TestOpenOwnsItsConnectionsAndNewBorrows(t *testing.T) {
	url := testserver.Redis(t)
	opened, err := redisstore.Open(t.Context(), url, redisstore.WithPrefix(newPrefix()))
	must(t, err)
	claim(t, opened, request())
	must(t, opened.Close())
	must(t, opened.Close())
	if _, err := opened.Claim(t.Context(), request()); err == nil {
		t.Error("a store that is closed, with its connections, gave a claim")
	}

	client := newClient(t, url)
	store := newStore(t, client)
	must(t, store.Close())
	must(t, client.Ping(t.Context()).Err())
}

func TestKeysShowNothingAndShareAHashTag(t *testing.T) {
	server := testserver.StartRedis(t)
	client := newClient(t, server.URL())
	store := newStore(t, client)
	req := request()
	claim(t, store, req)
	must(t, store.Wait(t.Context(), req.Key))
	keys := client.Keys(t.Context(), "*").Val()
	slices.Sort(keys)
	if len(keys) != 2 || !strings.HasSuffix(keys[1], "}:waiting") || keys[1] != keys[0]+":waiting" {
		t.Fatalf("keys %q, want an operation and its mark", keys)
	}
	for _, secret := range []string{req.Key.Scope, req.Key.Method, req.Key.ID} {
		if strings.Contains(keys[0], secret) || strings.Contains(client.Get(t.Context(), keys[0]).Val(), secret) {
			t.Errorf("Redis holds a part of the key, %s", secret)
		}
	}
	if slots := client.Do(t.Context(), "CLUSTER", "KEYSLOT", keys[0]).Val(); slots !=
		client.Do(t.Context(), "CLUSTER", "KEYSLOT", keys[1]).Val() {
		t.Error("the keys of one operation have different slots")
	}
}

func TestAValueOfAnotherKindIsUnreadableAndStays(t *testing.T) {
	server := testserver.StartRedis(t)
	client := newClient(t, server.URL())
	store := newStore(t, client)
	req := request()
	claim(t, store, req)
	key := client.Keys(t.Context(), "*").Val()[0]
	for _, value := range []string{"", "\x02", "\x01C", "\x01X" + strings.Repeat("\x00", 69), "\x01C" + strings.Repeat("\x00", 70)} {
		must(t, client.Set(t.Context(), key, value, time.Minute).Err())
		if _, err := store.Claim(t.Context(), again(req)); !errors.Is(err, dedup.ErrRecordUnreadable) {
			t.Errorf("%d bytes: error %v, want ErrRecordUnreadable", len(value), err)
		}
		if got := client.Get(t.Context(), key).Val(); got != value {
			t.Errorf("%d bytes were changed to %d", len(value), len(got))
		}
	}
}
