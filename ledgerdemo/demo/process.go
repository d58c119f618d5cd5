package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"
)

// What the server writes on standard output, a line each.
const (
	// ListeningPrefix comes before the address, once calls are taken.
	ListeningPrefix = "listening on "
	// FaultPrefix comes before the kind of a fault when it is made.
	FaultPrefix = "fault: "
	// UnknownLine comes before an operation is executed of which nobody knows
	// whether it was before.
	UnknownLine = "outcome unknown: executing again"
)

const (
	startTimeout = 30 * time.Second
	stopTimeout  = 20 * time.Second
	startTries   = 5
)

// process is a server that runs as a process of its own. It ends when its
// standard input does, so that it never outlives this process, however this
// one ends.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	addr  string
	done  chan struct{} // closed when it has ended
	err   error         // how it ended, once done is closed
	ended atomic.Bool   // it was told to end
}

// startProcess runs command and waits until it takes calls. log gets what it
// writes on standard error; onLine is called with each line that it writes on
// standard output after that, from one goroutine at a time.
func startProcess(ctx context.Context, command []string, log io.Writer, onLine func(line string)) (*process, error) {
	cmd := exec.Command(command[0], command[1:]...)
	last := &tail{}
	cmd.Stderr = io.MultiWriter(log, last)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	p := &process{cmd: cmd, stdin: stdin, done: make(chan struct{})}
	listening := make(chan string, 1)
	go p.follow(stdout, listening, onLine)

	timer := time.NewTimer(startTimeout)
	defer timer.Stop()
	select {
	case p.addr = <-listening:
		return p, nil
	case <-p.done:
		return nil, fmt.Errorf("the server did not start: %w: %s", p.err, last)
	case <-timer.C:
		p.kill()
		return nil, fmt.Errorf("the server does not take calls after %v: %s", startTimeout, last)
	case <-ctx.Done():
		p.kill()
		return nil, ctx.Err()
	}
}

// follow reads what the server says until it has ended.
func (p *process) follow(stdout io.Reader, listening chan<- string, onLine func(string)) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		addr, ok := strings.CutPrefix(lines.Text(), ListeningPrefix)
		if !ok {
			onLine(lines.Text())
			continue
		}
		select {
		case listening <- addr:
		default: // it says so once
		}
	}
	_, _ = io.Copy(io.Discard, stdout) // after a line too long for the scanner
	if p.err = p.cmd.Wait(); p.err == nil {
		p.err = errors.New("it stopped by itself")
	}
	close(p.done)
}

// kill ends the server without a chance to say goodbye, and waits for it.
func (p *process) kill() {
	p.ended.Store(true)
	_ = p.cmd.Process.Kill() // fails only where it has ended
	<-p.done
}

// stop lets the server finish what it is doing and waits for it.
func (p *process) stop() error {
	p.ended.Store(true)
	_ = p.stdin.Close() // fails only where it has ended
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.kill()
		return fmt.Errorf("the server did not stop within %v", stopTimeout)
	}
	if !p.cmd.ProcessState.Success() {
		return fmt.Errorf("the server stopped with %w", p.err)
	}
	return nil
}

// restart starts a server again on the port that the killed one had. For a
// moment the port may be taken: a connection attempt to it can be given the
// very port as its own.
func restart(ctx context.Context, command []string, log io.Writer, onLine func(string)) (*process, error) {
	for try := 1; ; try++ {
		p, err := startProcess(ctx, command, log, onLine)
		if err == nil || try == startTries || ctx.Err() != nil {
			return p, err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// tail keeps the end of what is written to it.
type tail struct{ b []byte }

const tailBytes = 2000

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	t.b = t.b[max(0, len(t.b)-tailBytes):]
	return len(p), nil
}

func (t *tail) String() string { return strings.TrimSpace(string(t.b)) }
