package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/retrysafe/retrysafe/internal/testserver"
)

// need is a server that the command needs.
type need struct {
	variable string   // names a server that is there already
	packages []string // Debian's
	launch   func() (*testserver.Server, error)
}

func needs(durable bool) []need {
	postgres := testserver.LaunchSharedPostgres
	if durable {
		postgres = func() (*testserver.Server, error) { return testserver.LaunchPostgres() }
	}
	return []need{
		{
			variable: testserver.PostgresVariable,
			packages: []string{"postgresql"},
			launch:   postgres,
		},
		{
			variable: testserver.RedisVariable,
			packages: []string{"redis-server"},
			launch:   func() (*testserver.Server, error) { return testserver.LaunchRedis() },
		},
	}
}

// provide starts the server, or returns nil where the environment names one.
func (n *need) provide() (*testserver.Server, error) {
	if os.Getenv(n.variable) != "" {
		return nil, nil
	}
	server, err := n.launch()
	if !errors.Is(err, testserver.ErrNotInstalled) {
		return server, err
	}
	if installErr := install(n.packages); installErr != nil {
		return nil, fmt.Errorf("%w (%w)", err, installErr)
	}
	return n.launch()
}

// install installs Debian packages. Their services are not to be started.
func install(packages []string) error {
	apt, err := exec.LookPath("apt-get")
	if err != nil {
		return errors.New("without apt-get it is not installed from here")
	}
	if os.Geteuid() != 0 {
		return errors.New("it is installed from here by root alone")
	}
	for _, arguments := range [][]string{
		{"update", "-q"},
		append([]string{"install", "-q", "-y", "--no-install-recommends"}, packages...),
	} {
		cmd := exec.Command(apt, arguments...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1")
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("apt-get %s: %w", arguments[0], err)
		}
	}
	return nil
}
