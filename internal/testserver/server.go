package testserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// startTimeout bounds how long a server may take to answer. It is far above
// what one needs, so that a loaded machine fails nothing.
const startTimeout = 60 * time.Second

// Server is a PostgreSQL or Redis server on this machine. It keeps its address
// and its data from one start to the next. Its methods are safe for concurrent
// use.
type Server struct {
	kind   kind
	folder string
	port   int

	mu      sync.Mutex
	process *process // nil while the server does not run
	closed  bool
}

// kind is what a server of one kind needs.
type kind struct {
	name string
	// prepare makes what the server finds in its folder, once.
	prepare func(folder string) error
	// command runs the server in the foreground.
	command func(folder string, port int) []string
	// url is the address that clients are given.
	url func(port int) string
	// ready returns nil where the server of that folder answers at the port.
	ready func(ctx context.Context, folder string, port int) error
	// stop and kill are the signals that end it in order and at once.
	stop, kill string
}

// launch starts a server. A port that somebody took between choosing and
// binding it is no reason to fail, so it tries more than one.
func launch(k kind) (*Server, error) {
	folder, err := newFolder(k.name)
	if err != nil {
		return nil, fmt.Errorf("testserver: %s: %w", k.name, err)
	}
	s := &Server{kind: k, folder: folder}
	if err = k.prepare(folder); err == nil {
		err = s.startAnywhere(3)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("testserver: start %s: %w", k.name, err), os.RemoveAll(folder))
	}
	return s, nil
}

func (s *Server) startAnywhere(tries int) error {
	var errs []error
	for range tries {
		port, err := freePort()
		if err != nil {
			return err
		}
		s.port = port
		if err = s.start(); err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (s *Server) start() error {
	p, err := startProcess(s.log(), s.folder, s.kind.kill, s.kind.command(s.folder, s.port))
	if err != nil {
		return err
	}
	if err := s.await(p); err != nil {
		return errors.Join(err, p.end(s.kind.kill))
	}
	s.process = p
	return nil
}

// await returns nil when the server answers, and an error when it has ended or
// takes too long.
func (s *Server) await(p *process) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		err := s.kind.ready(ctx, s.folder, s.port)
		if err == nil {
			return nil
		}
		if p.endsWithin(10 * time.Millisecond) {
			return fmt.Errorf("it ended; its log says:\n%s", s.tail())
		}
		if ctx.Err() != nil {
			return fmt.Errorf("it does not answer after %v: %w; its log says:\n%s", startTimeout, err, s.tail())
		}
	}
}

func (s *Server) log() string { return filepath.Join(s.folder, "log") }

// tail returns the end of the server's log.
func (s *Server) tail() string {
	text, err := os.ReadFile(s.log())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}

// URL returns the address for clients. It stays the same over restarts.
func (s *Server) URL() string { return s.kind.url(s.port) }

// Addr returns the address as host:port, for a proxy in front of the server.
func (s *Server) Addr() string { return address(s.port) }

func address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// Signal sends the server's process a signal, such as SIGSTOP. It does nothing
// while the server does not run.
func (s *Server) Signal(signal syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return nil
	}
	return syscall.Kill(s.process.pid, signal)
}

// Start starts a server that was stopped or killed, with the data that it
// left, and returns when it answers. It does nothing where the server runs.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("testserver: start %s: it is closed", s.kind.name)
	}
	if s.process != nil {
		return nil
	}
	if err := s.start(); err != nil {
		return fmt.Errorf("testserver: start %s: %w", s.kind.name, err)
	}
	return nil
}

// Stop ends the server in good order and returns when it has ended:
// PostgreSQL by a fast shutdown, Redis after saving what it is told to save.
func (s *Server) Stop() error { return s.end(s.kind.stop) }

// Kill ends the server at once, with nothing written that was not, and returns
// when all its processes have ended: Redis by SIGKILL, PostgreSQL by an
// immediate shutdown, which ends the backends too.
func (s *Server) Kill() error { return s.end(s.kind.kill) }

func (s *Server) end(signal string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return nil
	}
	err := s.process.end(signal)
	s.process = nil
	if err != nil {
		return fmt.Errorf("testserver: stop %s: %w", s.kind.name, err)
	}
	return nil
}

// Close kills the server if it runs and removes its data. Closing again does
// nothing.
func (s *Server) Close() error {
	err := s.Kill()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return errors.Join(err, os.RemoveAll(s.folder))
}
