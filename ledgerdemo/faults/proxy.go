package faults

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// dialTimeout bounds how long a client waits to be told that the server is
// gone.
const dialTimeout = 2 * time.Second

// Proxy passes TCP connections on to a server and cuts them when told to. It
// is safe for concurrent use.
type Proxy struct {
	upstream string
	listener net.Listener
	ctx      context.Context // ends with Close
	stop     context.CancelFunc
	running  sync.WaitGroup

	mu    sync.Mutex
	links []*link
}

// link is one connection of a client with the one to the server.
type link struct{ client, server net.Conn }

// NewProxy starts a proxy to upstream, a TCP address, on a free port of the
// loopback interface. The caller closes it.
func NewProxy(upstream string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{upstream: upstream, listener: l}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.running.Go(p.accept)
	return p, nil
}

// Addr returns the address that clients connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Cut breaks one live connection, chosen at random, in the middle of whatever
// it carries. It returns false where there is none.
func (p *Proxy) Cut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.links) == 0 {
		return false
	}
	p.links[rand.IntN(len(p.links))].cut()
	return true
}

// Close stops listening, cuts every connection and waits until all are gone. A
// second Close does nothing.
func (p *Proxy) Close() error {
	p.stop()
	err := p.listener.Close()
	p.mu.Lock()
	for _, l := range p.links {
		l.cut()
	}
	p.mu.Unlock()
	p.running.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // such as too many open files: the next may fit
			if pause(p.ctx, 10*time.Millisecond) != nil {
				return
			}
			continue
		}
		p.running.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	dialer := net.Dialer{Timeout: dialTimeout}
	server, err := dialer.DialContext(p.ctx, "tcp", p.upstream)
	if err != nil {
		client.Close()
		return
	}
	l := &link{client: client, server: server}
	if !p.add(l) {
		l.cut()
		return
	}
	defer p.remove(l)
	var back sync.WaitGroup
	back.Go(func() { l.pass(client, server) })
	l.pass(server, client)
	back.Wait()
}

// add returns false where the proxy is closing, and then nobody else cuts l.
func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return false
	}
	p.links = append(p.links, l)
	return true
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, other := range p.links {
		if other == l {
			p.links[i] = p.links[len(p.links)-1]
			p.links = p.links[:len(p.links)-1]
			return
		}
	}
}

// pass copies until either side is gone, and then takes the other with it:
// HTTP/2 does not use half-closed connections.
func (l *link) pass(to, from net.Conn) {
	_, _ = io.Copy(to, from) // whatever ended it, the connection is over
	l.client.Close()
	l.server.Close()
}

// cut resets both sides, so that what is under way is lost.
func (l *link) cut() {
	for _, c := range []net.Conn{l.client, l.server} {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // fails only where the connection is gone already
		}
		c.Close()
	}
}
