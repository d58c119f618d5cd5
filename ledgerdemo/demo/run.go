package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/dedup/sqlitestore"
	"github.com/retrysafe/retrysafe/ledgerdemo/audit"
	"github.com/retrysafe/retrysafe/ledgerdemo/faults"
)

// Run makes one demonstration. It returns an error where the demonstration
// itself could not be made, or ctx ended; whether the ledger came through is
// what the [Result] says. When it returns, the server has ended, and its
// folder is removed unless it is to be kept.
func Run(ctx context.Context, c Config) (_ *Result, err error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "ledgerdemo-")
	if err != nil {
		return nil, fmt.Errorf("make a temporary folder: %w", err)
	}
	defer func() { err = errors.Join(err, leave(dir, c)) }()
	log, err := os.Create(filepath.Join(dir, "server.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s := &stage{config: c, progress: c.progress(), log: log, db: filepath.Join(dir, "ledger.db"), faults: map[string]int{}}
	return s.play(ctx)
}

func leave(dir string, c Config) error {
	if !c.Keep {
		return os.RemoveAll(dir)
	}
	c.progress().Say("kept: " + dir)
	return nil
}

// stage is what a run plays on.
type stage struct {
	config   Config
	progress Progress
	log      *os.File
	db       string

	server *process
	proxy  *faults.Proxy
	kills  int
	cuts   int

	mu     sync.Mutex
	faults map[string]int
}

// play runs the load under faults and audits what it left.
func (s *stage) play(ctx context.Context) (*Result, error) {
	began := time.Now()
	var err error
	if s.server, err = startProcess(ctx, s.command("127.0.0.1:0"), s.log, s.onFault); err != nil {
		return nil, err
	}
	defer func() { s.server.kill() }() // whichever it is by then
	if s.proxy, err = faults.NewProxy(s.server.addr); err != nil {
		return nil, err
	}
	defer s.proxy.Close()
	l := newLoad(s.config)
	opening, err := l.setUp(ctx, s.proxy.Addr())
	if err != nil {
		return nil, err
	}
	s.progress.Say(fmt.Sprintf("server %s with a new database; %d accounts opened; %d clients begin",
		s.server.addr, accounts, s.config.Clients))
	if err := s.storm(ctx, l); err != nil {
		return nil, err
	}
	if err := s.server.stop(); err != nil {
		return nil, err
	}
	s.progress.Say("server stopped; auditing the database")
	report, err := s.audit(ctx, audit.Expectation{Currency: currencyCode, Opening: opening, Debits: l.debits})
	if err != nil {
		return nil, err
	}
	return s.result(l, report, time.Since(began)), nil
}

// storm runs the load, and kills and cuts as it advances.
func (s *stage) storm(ctx context.Context, l *load) error {
	conns, err := l.connect(s.proxy.Addr())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var loading sync.WaitGroup
	loading.Go(func() { l.run(ctx, conns) })
	err = s.direct(ctx, l)
	cancel() // they are finished, or are not to be
	loading.Wait()
	return errors.Join(err, closeAll(conns))
}

// direct follows the debits as they finish. Faults come by how many have, not
// by the clock, so that a slow machine sees as many.
func (s *stage) direct(ctx context.Context, l *load) error {
	total := s.config.Operations
	for done := 1; done <= total; done++ {
		select {
		case <-l.finished:
		case <-s.server.done:
			return fmt.Errorf("the server has ended: %w", s.server.err)
		case <-ctx.Done():
			return ctx.Err()
		}
		s.progress.Step(done, total)
		if s.kills < s.config.Kills && done >= total*(s.kills+1)/(s.config.Kills+1) {
			if err := s.killAndRestart(ctx, done); err != nil {
				return err
			}
		}
		if done%cutEvery == 0 && s.proxy.Cut() {
			s.cuts++
		}
	}
	return nil
}

func (s *stage) killAndRestart(ctx context.Context, done int) error {
	began := time.Now()
	s.server.kill()
	s.kills++
	next, err := restart(ctx, s.command(s.server.addr), s.log, s.onFault)
	if err != nil {
		return err
	}
	s.server = next
	s.progress.Say(fmt.Sprintf("server killed after %s debits, and back %v later (%d of %d)",
		group(int64(done)), time.Since(began).Round(time.Millisecond), s.kills, s.config.Kills))
	return nil
}

// command is the server's command line.
func (s *stage) command(addr string) []string {
	p := s.config.plan(s.kills)
	share := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	line := append(append([]string{}, s.config.Server...),
		"--addr", addr, "--db", s.db, "--stop-with-stdin",
		"--lose-responses", share(p.LoseResponses),
		"--slow-attempts", share(p.SlowAttempts), "--slow-by", p.SlowBy.String(),
		"--burst-every", strconv.Itoa(p.BurstEvery), "--burst-length", strconv.Itoa(p.BurstLength),
		"--seed", strconv.FormatUint(p.Seed, 10))
	if s.config.WithoutDedup {
		line = append(line, "--without", "dedup")
	}
	return line
}

func (s *stage) onFault(kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[kind]++
}

// audit reads the database that the server has left.
func (s *stage) audit(ctx context.Context, want audit.Expectation) (*audit.Report, error) {
	store, err := sqlitestore.Open(ctx, s.db)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	return audit.Run(ctx, store.DB(), want)
}

func (s *stage) result(l *load, r *audit.Report, wall time.Duration) *Result {
	acknowledged := 0
	for _, d := range l.debits {
		if d.Acknowledged {
			acknowledged++
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Result{
		Operations:   s.config.Operations,
		Acknowledged: acknowledged,
		Attempts:     l.attempts.Load(),
		Retries:      l.attempts.Load() - int64(s.config.Operations),
		Replays:      l.replays.Load(),
		Kills:        s.kills,
		Cuts:         s.cuts,
		Faults:       maps.Clone(s.faults),
		Failures:     l.failures,
		P50:          quantile(l.latency, 0.50),
		P99:          quantile(l.latency, 0.99),
		Wall:         wall,
		Audit:        r,
	}
}
