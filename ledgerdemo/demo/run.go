package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/ledgerdemo/audit"
)

// Run makes one demonstration. It returns an error where the demonstration
// itself could not be made, or ctx ended; whether the ledger came through is
// what the [Result] says. When it returns, the servers have ended, and what
// they kept is removed unless it is to stay.
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
	place, err := newPlace(ctx, c, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, place.leave(ctx, c)) }()
	c.Replicas = max(c.Replicas, 1)
	s := &stage{
		config:   c,
		progress: c.progress(),
		log:      log,
		place:    place,
		failed:   make(chan error, 1),
		faults:   map[string]int{},
	}
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
	log      *os.File // written to by one server at a time, or in whole lines
	place    *place

	replicas     []*replica
	starts       int
	kills        int
	cuts         int
	terminations int
	failed       chan error // gets the first server's end that nobody asked for
	watching     sync.WaitGroup

	mu      sync.Mutex
	faults  map[string]int
	unknown int
}

// play runs the load under faults and audits what it left.
func (s *stage) play(ctx context.Context) (*Result, error) {
	began := time.Now()
	defer s.lower()
	if err := s.raise(ctx); err != nil {
		return nil, err
	}
	l := newLoad(s.config)
	opening, err := l.setUp(ctx, s.addrs())
	if err != nil {
		return nil, err
	}
	s.progress.Say(s.opening())
	if err := s.storm(ctx, l); err != nil {
		return nil, err
	}
	if err := s.stop(); err != nil {
		return nil, err
	}
	s.progress.Say(s.servers() + " stopped; auditing the database")
	report, err := s.place.audit(ctx, audit.Expectation{
		Currency: currencyCode, Opening: opening, Debits: l.debits, MayRepeat: s.mayRepeat(),
	})
	if err != nil {
		return nil, err
	}
	return s.result(l, report, time.Since(began)), nil
}

func (s *stage) opening() string {
	var addrs []string
	for _, r := range s.replicas {
		addrs = append(addrs, r.addr)
	}
	return fmt.Sprintf("%s %s with a new database in %v; %d accounts opened; %d clients begin",
		s.servers(), strings.Join(addrs, " "), s.place, accounts, s.config.Clients)
}

func (s *stage) servers() string {
	if len(s.replicas) == 1 {
		return "server"
	}
	return "servers"
}

// mayRepeat is how many debits may have been made again: those of which a
// server has said that nobody knows, as far as the faults explain that. A kill
// interrupts no more than one debit of each client, and a session that is
// terminated no more than one.
func (s *stage) mayRepeat() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(s.unknown, s.kills*s.config.Clients+s.terminations)
}

// storm runs the load, and breaks things as it advances.
func (s *stage) storm(ctx context.Context, l *load) error {
	conns, err := l.connect(s.addrs())
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
		case err := <-s.failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
		s.progress.Step(done, total)
		if err := s.strike(ctx, done); err != nil {
			return err
		}
	}
	return nil
}

// strike breaks what is due once so many debits have finished.
func (s *stage) strike(ctx context.Context, done int) error {
	due := func(struck, of int) bool { return struck < of && done >= s.config.Operations*(struck+1)/(of+1) }
	if due(s.terminations, s.config.Terminations) {
		ended, err := s.place.postgres.terminate(ctx)
		if err != nil {
			return err
		}
		if ended { // where there was none, the next debit has its turn
			s.terminations++
		}
	}
	if done%cutEvery == 0 {
		s.cut()
	}
	if due(s.kills, s.config.Kills) {
		return s.killAndRestart(ctx, done)
	}
	return nil
}

// command is the next server's command line.
func (s *stage) command(addr string) []string {
	p := s.config.plan(s.starts)
	s.starts++
	share := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	line := append(append([]string{}, s.config.Server...),
		"--addr", addr, "--stop-with-stdin",
		"--lose-responses", share(p.LoseResponses),
		"--slow-attempts", share(p.SlowAttempts), "--slow-by", p.SlowBy.String(),
		"--hold-records", share(p.HoldRecords), "--hold-by", p.HoldBy.String(),
		"--burst-every", strconv.Itoa(p.BurstEvery), "--burst-length", strconv.Itoa(p.BurstLength),
		"--seed", strconv.FormatUint(p.Seed, 10))
	line = append(line, s.place.flags()...)
	if s.config.WithoutDedup {
		line = append(line, "--without", "dedup")
	}
	return line
}

// onLine hears what the servers say.
func (s *stage) onLine(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if kind, ok := strings.CutPrefix(line, FaultPrefix); ok {
		s.faults[kind]++
	}
	if line == UnknownLine {
		s.unknown++
	}
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
		Place:        s.place.String(),
		Replicas:     s.config.Replicas,
		OneAtATime:   s.config.oneAtATime(),
		Unknown:      s.unknown,
		OnPostgreSQL: s.config.OnPostgreSQL(),
		Terminations: s.terminations,
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
