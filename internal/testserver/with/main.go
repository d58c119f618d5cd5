// Command with runs a command with the servers that tests need, and ends with
// that command's status.
//
//	go run ./internal/testserver/with go test ./...
//
// A server that is named in RETRYSAFE_POSTGRES_URL or RETRYSAFE_REDIS_URL is
// used as it is. Otherwise one that is installed on the machine is started,
// for this run alone. Otherwise it is installed where that may be done: by
// root, with apt-get. Otherwise with says what to set, and runs nothing.
//
// The shared PostgreSQL server does not wait for the disk unless -durable asks
// it to, as a benchmark does.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/retrysafe/retrysafe/internal/testserver"
)

func main() {
	durable := flag.Bool("durable", false, "run PostgreSQL with fsync on")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: with [-durable] command [argument...]")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	status, err := run(needs(*durable), flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "with:", err)
	}
	os.Exit(status)
}

// run provides what is needed, runs the command and takes back what it
// provided.
func run(needs []need, command []string) (status int, err error) {
	// A signal is for the command: with stays to end the servers after it.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)

	environment := os.Environ()
	for _, n := range needs {
		server, err := n.provide()
		if err != nil {
			return 1, err
		}
		if server == nil {
			continue
		}
		defer func() { status, err = closed(server, status, err) }()
		environment = append(environment, n.variable+"="+server.URL())
	}
	return execute(command, environment, signals)
}

func closed(server *testserver.Server, status int, err error) (int, error) {
	if closeErr := server.Close(); closeErr != nil {
		return max(status, 1), errors.Join(err, closeErr)
	}
	return status, err
}

// execute runs the command in a process group of its own, so that a signal
// reaches all that it started, and once.
func execute(command, environment []string, signals <-chan os.Signal) (int, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = environment
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			_ = syscall.Kill(-cmd.Process.Pid, s.(syscall.Signal)) // it may have ended already
		case err := <-ended:
			return status(err)
		}
	}
}

// status is what a shell would report of a command that ended so.
func status(err error) (int, error) {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		if err != nil {
			return 1, err
		}
		return 0, nil
	}
	if wait, ok := exit.Sys().(syscall.WaitStatus); ok && wait.Signaled() {
		return 128 + int(wait.Signal()), nil
	}
	return exit.ExitCode(), nil
}
