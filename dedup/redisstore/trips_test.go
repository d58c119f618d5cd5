package redisstore_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/internal/testserver"
)

// trips counts how often something is sent to the server. Whoever sends again
// has read the answer first, so these are round trips.
type trips struct{ atomic.Int64 }

func (n *trips) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return &countedConn{Conn: conn, trips: n}, err
}

type countedConn struct {
	net.Conn
	trips *trips
}

func (c *countedConn) Write(b []byte) (int, error) {
	c.trips.Add(1)
	return c.Conn.Write(b)
}

func TestRoundTrips(t *testing.T) {
	var n trips
	client := newClient(t, testserver.Redis(t), func(o *redis.Options) {
		o.Dialer = n.dial
		o.PoolSize = 1
	})
	store := newStore(t, client)
	first := request()
	must(t, claim(t, store, first).Complete(t.Context(), completion("connected, and the scripts loaded")))

	count := func(what string, want int64, do func()) {
		before := n.Load()
		do()
		if got := n.Load() - before; got != want {
			t.Errorf("%s: %d round trips, want %d", what, got, want)
		}
	}
	req := request()
	count("claim and complete", 2, func() {
		must(t, claim(t, store, req).Complete(t.Context(), completion("paid")))
	})
	count("replay", 1, func() { wantState(t, ask(t, store, again(req)), dedup.Completed) })
	other := again(req)
	other.Fingerprint = dedup.FingerprintBytes([]byte("credit"))
	count("reused", 1, func() { wantState(t, ask(t, store, other), dedup.Reused) })
}
