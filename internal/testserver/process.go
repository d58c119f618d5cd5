package testserver

import (
	"bufio"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

//go:embed supervisor.sh
var supervisor string

// stopTimeout bounds how long a server may take to end.
const stopTimeout = 30 * time.Second

// process is a running server and the shell that watches over it. Both end
// when this process does. It needs no goroutine.
type process struct {
	shell  *exec.Cmd
	orders *os.File // ends the server: by a signal's name, or by being closed
	output *os.File // ends when the server and its children have ended
	pid    int
}

// startProcess starts command, which ends by the named signal, and its folder
// with it, when this process dies. What it prints goes to the file log.
func startProcess(log, folder, signal string, command []string) (*process, error) {
	ordersRead, orders, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	output, outputWrite, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, ordersRead.Close(), orders.Close())
	}
	arguments := append([]string{"-c", supervisor, "supervisor.sh", log, folder, signal}, command...)
	p := &process{shell: exec.Command("sh", arguments...), orders: orders, output: output}
	p.shell.Dir = folder
	p.shell.Stdin, p.shell.Stdout = ordersRead, outputWrite
	p.shell.SysProcAttr = attributes()
	err = p.shell.Start()
	ordersRead.Close()
	outputWrite.Close()
	if err != nil {
		orders.Close()
		output.Close()
		return nil, err
	}
	if p.pid, err = p.readPID(); err != nil {
		return nil, errors.Join(err, p.end(""))
	}
	return p, nil
}

func (p *process) readPID() (int, error) {
	line, err := bufio.NewReader(p.output).ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("the shell that starts it: %w", err)
	}
	return strconv.Atoi(strings.TrimSpace(line))
}

// endsWithin waits for the server's end, at most so long.
func (p *process) endsWithin(limit time.Duration) bool {
	_ = p.output.SetReadDeadline(time.Now().Add(limit)) // pipes know deadlines
	_, err := io.Copy(io.Discard, p.output)
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// end ends the server by the named signal and waits for it and for what it
// started. Without a name the server's folder is removed too.
func (p *process) end(signal string) error {
	if signal != "" {
		_, _ = fmt.Fprintln(p.orders, signal) // closing is an order as well
	}
	err := p.orders.Close()
	if !p.endsWithin(stopTimeout) {
		err = fmt.Errorf("still runs after %v, so it was killed", stopTimeout)
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
	}
	_ = p.shell.Wait() // its status is the server's, which was told to end
	return errors.Join(err, p.output.Close())
}
