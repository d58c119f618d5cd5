package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/ledgerdemo/faults"
)

// replica is one of the servers, behind a proxy that cuts connections.
type replica struct {
	*process
	name  string
	proxy *faults.Proxy
}

// raise starts all servers.
func (s *stage) raise(ctx context.Context) error {
	for i := range s.config.Replicas {
		r := &replica{name: "server"}
		if s.config.Replicas > 1 {
			r.name = fmt.Sprintf("server %d", i+1)
		}
		var err error
		if r.process, err = startProcess(ctx, s.command("127.0.0.1:0"), s.log, s.onLine); err != nil {
			return err
		}
		s.replicas = append(s.replicas, r)
		s.watch(r.process)
		if r.proxy, err = faults.NewProxy(r.addr); err != nil {
			return err
		}
	}
	return nil
}

// lower ends what is still there of the servers.
func (s *stage) lower() {
	for _, r := range s.replicas {
		r.kill()
		if r.proxy != nil {
			_ = r.proxy.Close() // its port goes with it, whatever it says
		}
	}
	s.watching.Wait()
}

// watch tells of a server that ends though nobody has told it to.
func (s *stage) watch(p *process) {
	s.watching.Go(func() {
		if <-p.done; p.ended.Load() {
			return
		}
		select {
		case s.failed <- fmt.Errorf("a server has ended: %w", p.err):
		default: // the first is told of
		}
	})
}

// stop lets all servers finish what they are doing.
func (s *stage) stop() error {
	for _, r := range s.replicas {
		if err := r.process.stop(); err != nil {
			return err
		}
	}
	return nil
}

// addrs are those that clients connect to.
func (s *stage) addrs() []string {
	var addrs []string
	for _, r := range s.replicas {
		addrs = append(addrs, r.proxy.Addr())
	}
	return addrs
}

// killAndRestart kills the servers in turn.
func (s *stage) killAndRestart(ctx context.Context, done int) error {
	began := time.Now()
	r := s.replicas[s.kills%len(s.replicas)]
	r.kill()
	s.kills++
	next, err := restart(ctx, s.command(r.addr), s.log, s.onLine)
	if err != nil {
		return err
	}
	r.process = next
	s.watch(next)
	s.progress.Say(fmt.Sprintf("%s killed after %s debits, and back %v later (%d of %d)",
		r.name, group(int64(done)), time.Since(began).Round(time.Millisecond), s.kills, s.config.Kills))
	return nil
}

// cut breaks a connection to one of the servers, in turn.
func (s *stage) cut() {
	if s.replicas[s.cuts%len(s.replicas)].proxy.Cut() {
		s.cuts++
	}
}
