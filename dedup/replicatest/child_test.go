package replicatest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
)

// jobVariable tells the test binary, started again, that it is a replica, and
// what it has to do.
const jobVariable = "REPLICATEST_JOB"

// job is what a replica that is a process of its own has to do.
type job struct {
	Storage storage
	Do      string // "die", "hold" or "compete"
	Name    string
	ID      string // of the operation
	Lease   time.Duration
}

// competed is how many operations "compete" is about.
const competed = 40

func runChild() int {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	if err := child(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func child(ctx context.Context) error {
	var j job
	if err := json.Unmarshal([]byte(os.Getenv(jobVariable)), &j); err != nil {
		return err
	}
	store, closeStore, err := j.Storage.open(ctx)
	if err != nil {
		return err
	}
	engine, err := dedup.NewEngine(store, dedup.WithLease(j.Lease), dedup.WithWait(patience))
	if err != nil {
		return err
	}
	switch j.Do {
	case "die":
		err = j.do(ctx, engine, func(context.Context) { die() })
	case "hold":
		err = j.do(ctx, engine, untilTold)
	case "compete":
		err = compete(ctx, j, engine)
	}
	return errors.Join(err, engine.Close(), closeStore())
}

// die is what no handler can prepare for.
func die() {
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		panic(err)
	}
	select {}
}

// untilTold waits for a line, or for the end of who would send it. It says so
// when its claim is lost meanwhile.
func untilTold(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { fmt.Println("ended:", context.Cause(ctx)) })
	defer stop()
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
}

// do executes the job's operation. It says when it asked, and under which fence
// it executes, and at last how it was answered.
func (j job) do(ctx context.Context, engine *dedup.Engine, during func(context.Context)) error {
	op := operation(j.ID)
	asked := time.Now().UnixNano()
	result, err := engine.Do(ctx, op, func(ctx context.Context) (dedup.Outcome, error) {
		if err := j.Storage.effect(ctx, op, j.Name); err != nil {
			return dedup.Outcome{}, err
		}
		ex, _ := dedup.ExecutionFromContext(ctx)
		fmt.Println("executing", asked, ex.Fence())
		during(ctx)
		return dedup.Outcome{Message: j.Name}, nil
	})
	fmt.Println("answered", result.Outcome.Message, "replayed", result.Replayed, "unrecorded", result.Unrecorded, "error", err)
	return nil
}

// compete executes all operations, against others who do the same.
func compete(ctx context.Context, j job, engine *dedup.Engine) error {
	const callers = 4
	errs := make(chan error, callers)
	for c := range callers {
		go func() {
			var err error
			for i := 0; i < competed && err == nil; i++ {
				op := operation(fmt.Sprintf("%s-%d", j.ID, (i+c)%competed))
				_, err = engine.Do(ctx, op, func(ctx context.Context) (dedup.Outcome, error) {
					return dedup.Outcome{}, j.Storage.effect(ctx, op, j.Name)
				})
			}
			errs <- err
		}()
	}
	var err error
	for range callers {
		err = errors.Join(err, <-errs)
	}
	return err
}

// process is a replica that is a process of its own.
type process struct {
	tb    testing.TB
	cmd   *exec.Cmd
	tell  io.Writer
	lines *bufio.Reader
}

// start starts one, which does not outlive the test.
func (j job) start(tb testing.TB) *process {
	tb.Helper()
	text, err := json.Marshal(j)
	must(tb, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), jobVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	must(tb, err)
	stdout, err := cmd.StdoutPipe()
	must(tb, err)
	must(tb, cmd.Start())
	p := &process{tb: tb, cmd: cmd, tell: stdin, lines: bufio.NewReader(stdout)}
	tb.Cleanup(p.end)
	return p
}

// end kills the process where it still runs.
func (p *process) end() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}

// line returns the next line that begins so, without its beginning.
func (p *process) line(prefix string) string {
	p.tb.Helper()
	for {
		line, err := p.lines.ReadString('\n')
		if err != nil {
			p.tb.Fatalf("the replica ended before it said %q: %v", prefix, err)
		}
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), prefix); ok {
			return strings.TrimSpace(rest)
		}
	}
}

// executing waits for the replica to execute. It returns when it had asked for
// its claim, and the fence.
func (p *process) executing() (asked time.Time, fence uint64) {
	p.tb.Helper()
	var nanos int64
	_, err := fmt.Sscan(p.line("executing"), &nanos, &fence)
	must(p.tb, err)
	return time.Unix(0, nanos), fence
}

func (p *process) signal(s syscall.Signal) {
	p.tb.Helper()
	must(p.tb, p.cmd.Process.Signal(s))
}

// goOn lets the handler return.
func (p *process) goOn() {
	p.tb.Helper()
	_, err := fmt.Fprintln(p.tell, "go on")
	must(p.tb, err)
}

// wantKilled waits for the end of a replica that kills itself.
func (p *process) wantKilled() {
	p.tb.Helper()
	var exit *exec.ExitError
	err := p.cmd.Wait()
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		p.tb.Fatalf("the replica was not killed: %v", err)
	}
}

// wantDone waits for the end of a replica that ends in good order.
func (p *process) wantDone() {
	p.tb.Helper()
	if err := p.cmd.Wait(); err != nil {
		p.tb.Errorf("a replica: %v", err)
	}
}
