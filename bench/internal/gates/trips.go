package gates

import (
	"context"
	"net"
	"sync/atomic"
)

// trips counts how often connections read for the first time after they have
// written. It counts while one connection works at a time.
type trips struct{ n atomic.Int64 }

func (t *trips) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return &tripConn{Conn: conn, trips: t}, err
}

// during returns how many trips f makes.
func (t *trips) during(f func() error) (float64, error) {
	before := t.n.Load()
	err := f()
	return float64(t.n.Load() - before), err
}

type tripConn struct {
	net.Conn
	trips   *trips
	written atomic.Bool
}

func (c *tripConn) Write(b []byte) (int, error) {
	c.written.Store(true)
	return c.Conn.Write(b)
}

func (c *tripConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.written.CompareAndSwap(true, false) {
		c.trips.n.Add(1)
	}
	return n, err
}
