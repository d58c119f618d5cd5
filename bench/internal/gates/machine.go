package gates

import (
	"errors"
	"os"

	"github.com/retrysafe/retrysafe/bench/internal/measure"
	"github.com/retrysafe/retrysafe/internal/testserver"
)

// Machine is where gates run. It starts the servers that they ask for, unless
// the environment names them.
type Machine struct {
	Plan measure.Plan

	started []*testserver.Server
	urls    map[string]string
}

// NewMachine returns a machine on which no server runs yet.
func NewMachine(p measure.Plan) *Machine {
	return &Machine{Plan: p, urls: make(map[string]string)}
}

// Close stops the servers that were started.
func (m *Machine) Close() error {
	var errs []error
	for _, server := range m.started {
		errs = append(errs, server.Close())
	}
	m.started = nil
	return errors.Join(errs...)
}

// postgresURL is that of a server that waits for its disk, and redisURL that
// of one that does not.
func (m *Machine) postgresURL() (string, error) {
	return m.server(testserver.PostgresVariable, func() (*testserver.Server, error) { return testserver.LaunchPostgres() })
}

func (m *Machine) redisURL() (string, error) {
	return m.server(testserver.RedisVariable, func() (*testserver.Server, error) { return testserver.LaunchRedis() })
}

func (m *Machine) server(variable string, launch func() (*testserver.Server, error)) (string, error) {
	if named := os.Getenv(variable); named != "" {
		return named, nil
	}
	if url := m.urls[variable]; url != "" {
		return url, nil
	}
	server, err := launch()
	if err != nil {
		return "", err
	}
	m.started = append(m.started, server)
	m.urls[variable] = server.URL()
	return server.URL(), nil
}
