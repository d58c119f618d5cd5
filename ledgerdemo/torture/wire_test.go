package torture

import (
	"net"
	"sync"
	"testing"
	"time"
)

// wire passes TCP connections on to a server, and can be cut, slowed, and held
// so that what comes back from the server is lost.
type wire struct {
	listener net.Listener
	upstream string
	running  sync.WaitGroup
	closed   chan struct{}

	mu    sync.Mutex
	links map[*link]struct{}
	delay time.Duration
	free  chan struct{} // closed while nothing is held back
}

// link is a client's connection with the one to the server.
type link struct {
	client, server net.Conn
	gone           chan struct{} // closed when it is over
	once           sync.Once
}

// newWire makes a wire to a server that ends with the test.
func newWire(tb testing.TB, upstream string) *wire {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	w := &wire{
		listener: l, upstream: upstream, closed: make(chan struct{}),
		links: make(map[*link]struct{}), free: make(chan struct{}),
	}
	close(w.free)
	w.running.Go(w.accept)
	tb.Cleanup(w.close)
	return w
}

func (w *wire) addr() string { return w.listener.Addr().String() }

func (w *wire) accept() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return // it is closed
		}
		w.running.Go(func() { w.serve(client) })
	}
}

func (w *wire) serve(client net.Conn) {
	server, err := net.DialTimeout("tcp", w.upstream, time.Second)
	if err != nil {
		client.Close()
		return
	}
	l := &link{client: client, server: server, gone: make(chan struct{})}
	w.mu.Lock()
	w.links[l] = struct{}{}
	w.mu.Unlock()
	select {
	case <-w.closed: // perhaps before the link was known
		l.cut()
	default:
	}
	var back sync.WaitGroup
	back.Go(func() { w.pass(l, client, server, true) })
	w.pass(l, server, client, false)
	back.Wait()
	w.mu.Lock()
	delete(w.links, l)
	w.mu.Unlock()
}

// pass copies one direction until either side is gone.
func (w *wire) pass(l *link, to, from net.Conn, answers bool) {
	defer l.cut()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if !w.wait(l, answers) {
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// wait waits for as long as what was read is held up. It returns false where
// the link is over meanwhile.
func (w *wire) wait(l *link, answers bool) bool {
	w.mu.Lock()
	delay, free := w.delay, w.free
	w.mu.Unlock()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-l.gone:
			return false
		}
	}
	if !answers {
		return true
	}
	select {
	case <-free:
		return true
	case <-l.gone:
		return false
	}
}

// cut resets both sides.
func (l *link) cut() {
	l.once.Do(func() {
		close(l.gone)
		for _, c := range []net.Conn{l.client, l.server} {
			if tcp, ok := c.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0) // fails only where it is gone already
			}
			c.Close()
		}
	})
}

// cut breaks all connections and returns how many there were.
func (w *wire) cut() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	for l := range w.links {
		l.cut()
	}
	return len(w.links)
}

// slow delays each piece of data that passes, in both directions.
func (w *wire) slow(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.delay = d
}

// hold keeps answers from passing, until the connections are cut by lose.
func (w *wire) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.free = make(chan struct{})
}

// lose cuts the connections with the answers that were held, and lets those of
// new ones pass.
func (w *wire) lose() int {
	n := w.cut()
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.free)
	return n
}

func (w *wire) close() {
	close(w.closed)
	w.listener.Close()
	w.cut()
	w.running.Wait()
}
