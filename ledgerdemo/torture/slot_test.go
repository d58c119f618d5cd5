package torture

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// slot is a place where a server runs: an address, and one process after the
// other behind it. The slot holds the listener, so that the address stays, and
// those who connect while no server runs wait for the next.
type slot struct {
	tb       testing.TB
	listener *net.TCPListener
	file     *os.File
	log      io.Writer
	// next makes the config of each server, counted from 0.
	next func(n int) config
	// frozen is for how long a server is stopped whose plan says so.
	frozen time.Duration
	// thaw, where it is not nil, ends it earlier.
	thaw chan struct{}
	// reached is called with each step at which a server carries out its plan.
	reached func(plan)

	running sync.WaitGroup

	mu       sync.Mutex
	stopping bool
	command  *exec.Cmd // nil while no server runs
	deaths   []death
}

// death is how a server ended.
type death struct {
	plan
	// reached says that it came to the plan's step.
	reached bool
	// signal ended it, or 0.
	signal syscall.Signal
}

// newSlot makes a slot that ends with the test. It has no server yet.
func newSlot(tb testing.TB, log io.Writer, next func(n int) config) *slot {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &slot{tb: tb, listener: l.(*net.TCPListener), log: log, next: next}
	if s.file, err = s.listener.File(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.stop)
	return s
}

func (s *slot) addr() string { return s.listener.Addr().String() }

// start runs servers, one after the other, until stop.
func (s *slot) start() {
	s.running.Go(func() {
		for n := 0; ; n++ {
			d, ok := s.run(s.next(n))
			if !ok {
				return
			}
			s.mu.Lock()
			s.deaths = append(s.deaths, d)
			s.mu.Unlock()
			if d.signal == 0 { // its database may be away
				time.Sleep(50 * time.Millisecond)
			}
		}
	})
}

// run runs one server until it ends. It returns false where the slot stops.
func (s *slot) run(c config) (death, bool) {
	said, err := json.Marshal(c)
	if err != nil {
		s.tb.Error(err)
		return death{}, false
	}
	program, err := os.Executable()
	if err != nil {
		s.tb.Error(err)
		return death{}, false
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), childVariable+"="+string(said))
	cmd.ExtraFiles = []*os.File{s.file}
	cmd.Stderr = s.log
	stdin, errIn := cmd.StdinPipe() // closed with this process
	stdout, errOut := cmd.StdoutPipe()
	if errIn != nil || errOut != nil {
		s.tb.Error(errIn, errOut)
		return death{}, false
	}
	if !s.launch(cmd) {
		return death{}, false
	}
	d := death{plan: c.Plan}
	s.listen(cmd, stdin, stdout, &d)
	_ = cmd.Wait() // how it ended is in the state
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		d.signal = status.Signal()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.command = nil
	return d, !s.stopping
}

func (s *slot) launch(cmd *exec.Cmd) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return false
	}
	if err := cmd.Start(); err != nil {
		s.tb.Error(err)
		return false
	}
	s.command = cmd
	return true
}

// listen reads what a server tells until it ends.
func (s *slot) listen(cmd *exec.Cmd, stdin io.Writer, stdout io.Reader, d *death) {
	ended := make(chan struct{})
	var freezing sync.WaitGroup
	defer freezing.Wait()
	defer close(ended)
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if what, _, _ := strings.Cut(lines.Text(), "\t"); what != "reached" {
			continue
		}
		d.reached = true
		if s.reached != nil {
			s.reached(d.plan)
		}
		if d.Freeze {
			freezing.Go(func() { s.freeze(cmd, stdin, ended) })
		}
	}
}

// freeze stops a server that waits at a step, for a while, and lets it go on.
// The server may end meanwhile, so that none of it works.
func (s *slot) freeze(cmd *exec.Cmd, stdin io.Writer, ended <-chan struct{}) {
	_ = cmd.Process.Signal(syscall.SIGSTOP)
	select {
	case <-s.thaw:
	case <-time.After(s.frozen):
	case <-ended:
	}
	_ = cmd.Process.Signal(syscall.SIGCONT)
	_, _ = stdin.Write([]byte{0})
}

// signal sends the running server a signal, and returns false where there is
// none.
func (s *slot) signal(signal syscall.Signal) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.command != nil && s.command.Process.Signal(signal) == nil
}

// stop kills the server and ends the slot. Stopping again does nothing.
func (s *slot) stop() {
	s.mu.Lock()
	s.stopping = true
	if s.command != nil {
		_ = s.command.Process.Kill() // it may be gone
	}
	s.mu.Unlock()
	s.running.Wait()
	s.listener.Close()
	s.file.Close()
}

// ends returns how the servers so far have ended.
func (s *slot) ends() []death {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]death(nil), s.deaths...)
}
