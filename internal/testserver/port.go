package testserver

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// The ports that servers get lie below those that Linux, macOS and the BSDs
// give to outgoing connections. A server that restarts finds its port free.
const (
	firstPort = 20000
	lastPort  = 31999
)

// freePort returns a loopback port that nobody listens on.
func freePort() (int, error) {
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return port, listener.Close()
		}
	}
	return 0, errors.New("no free port on 127.0.0.1")
}
