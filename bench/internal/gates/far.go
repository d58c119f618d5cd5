package gates

import (
	"context"
	"net"
	"time"
)

// far dials servers that are so much further away: whatever is written leaves
// that much later. A trip writes once, so that it takes that much longer.
type far time.Duration

func (f far) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return &farConn{Conn: conn, delay: time.Duration(f)}, err
}

type farConn struct {
	net.Conn
	delay time.Duration
}

func (c *farConn) Write(b []byte) (int, error) {
	time.Sleep(c.delay)
	return c.Conn.Write(b)
}
