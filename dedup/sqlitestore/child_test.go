package sqlitestore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/retrysafe/retrysafe/dedup"
)

// The test binary started again is a process of its own, which does the job
// that the environment names.
const (
	childJob  = "SQLITESTORE_TEST_JOB"
	childPath = "SQLITESTORE_TEST_PATH"
	childArg  = "SQLITESTORE_TEST_ARG"
)

var childJobs = map[string]func(ctx context.Context, path, arg string) error{
	"die at":  dieAt,
	"hold":    holdForEver,
	"compete": compete,
}

func runChild(job string) int {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	if err := childJobs[job](ctx, os.Getenv(childPath), os.Getenv(childArg)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func child(t *testing.T, job, path, arg string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(bounded(t), os.Args[0])
	cmd.Env = append(os.Environ(), childJob+"="+job, childPath+"="+path, childArg+"="+arg)
	cmd.Stderr = os.Stderr
	return cmd
}

func die() {
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {}
}

// dieAt executes "first" and, inside it, "nested", and kills itself at a point
// of the first. "settled" was done before.
func dieAt(ctx context.Context, path, point string) error {
	armed := false // within the first
	s, err := Open(ctx, path, withProbe(func(p string) {
		if armed && p == point {
			die()
		}
	}))
	if err != nil {
		return err
	}
	defer s.Close()
	if err := executeOnce(ctx, s, "settled", nil); err != nil {
		return err
	}
	armed = point == "claimed"
	return executeOnce(ctx, s, "first", func(handling context.Context) error {
		if err := executeOnce(handling, s, "nested", nil); err != nil {
			return err
		}
		armed = true
		if point == "handler" {
			die()
		}
		return nil
	})
}

// executeOnce claims id, writes it as an effect, and completes.
func executeOnce(ctx context.Context, s *Store, id string, then func(context.Context) error) error {
	answer, err := s.Claim(ctx, request(id))
	if err != nil || answer.State == dedup.Completed {
		return err
	}
	if answer.State != dedup.Claimed {
		return fmt.Errorf("answered %v", answer.State)
	}
	handling := answer.Claim.Context(ctx)
	if err := write(handling, id); err != nil {
		return errors.Join(err, answer.Claim.Release(ctx))
	}
	if then != nil {
		if err := then(handling); err != nil {
			return errors.Join(err, answer.Claim.Release(ctx))
		}
	}
	return answer.Claim.Complete(ctx, recorded("paid"))
}

// holdForEver claims, writes, says so, and waits to be killed.
func holdForEver(ctx context.Context, path, id string) error {
	s, err := Open(ctx, path)
	if err != nil {
		return err
	}
	answer, err := s.Claim(ctx, request(id))
	if err != nil {
		return err
	}
	if err := write(answer.Claim.Context(ctx), "lost"); err != nil {
		return err
	}
	fmt.Println("held")
	<-ctx.Done()
	return ctx.Err()
}

// operations is how many each competitor executes.
const operations = 60

// compete executes all operations, a few at a time, against others who do the
// same. Each effect must be written by one of them: the second to write it
// would fail.
func compete(ctx context.Context, path, _ string) error {
	s, err := Open(ctx, path)
	if err != nil {
		return err
	}
	const callers = 8
	errs := make(chan error, callers)
	for c := range callers {
		go func() {
			var err error
			for i := c; i < operations && err == nil; i += callers {
				err = executeOnce(ctx, s, fmt.Sprintf("operation %03d", i), nil)
			}
			errs <- err
		}()
	}
	for range callers {
		err = errors.Join(err, <-errs)
	}
	return errors.Join(err, s.Close())
}

// A crash at any point leaves both, the writes and the record, or neither.
func TestCrash(t *testing.T) {
	for _, tc := range []struct {
		point string
		both  bool
	}{
		{"claimed", false},
		{"handler", false},
		{"before record", false},
		{"recorded", false},
		{"before commit", false},
		{"after commit", true},
	} {
		t.Run(tc.point, func(t *testing.T) {
			path := databasePath(t)
			s := openAt(t, path)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			var killed *exec.ExitError
			if err := child(t, "die at", path, tc.point).Run(); !errors.As(err, &killed) || killed.ExitCode() != -1 {
				t.Fatalf("the child was not killed: %v", err)
			}
			s = openAt(t, path)
			effects, state := []string{"settled"}, dedup.Claimed
			if tc.both {
				effects, state = []string{"first", "nested", "settled"}, dedup.Completed
			}
			wantEffects(t, s, effects...)
			wantState(t, s, "settled", dedup.Completed)
			wantState(t, s, "first", state)
			wantState(t, s, "nested", state)
		})
	}
}

// A claim of another process is waited for, and gone with the process.
func TestClaimOfADeadProcess(t *testing.T) {
	path := databasePath(t)
	s := openAt(t, path)
	cmd := child(t, "hold", path, "a")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("the child says %q, %v", line, err)
	}
	brief, cancel := context.WithTimeout(bounded(t), 20*pollInterval())
	defer cancel()
	_, err = s.Claim(brief, request("a"))
	wantError(t, "Claim", err, ErrBusy)

	claimed := make(chan error, 1)
	go func() { claimed <- executeOnce(bounded(t), s, "a", nil) }()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if err := <-claimed; err != nil {
		t.Errorf("after its death: %v", err)
	}
	wantEffects(t, s, "a")
}

// Several processes execute the same operations: each is executed once.
func TestCompetingProcesses(t *testing.T) {
	path := databasePath(t)
	s := openAt(t, path)
	children := []*exec.Cmd{child(t, "compete", path, ""), child(t, "compete", path, "")}
	for _, cmd := range children {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	if err := compete(bounded(t), path, ""); err != nil {
		t.Error(err)
	}
	for _, cmd := range children {
		if err := cmd.Wait(); err != nil {
			t.Errorf("a child: %v", err)
		}
	}
	got, err := effects(bounded(t), s)
	if err != nil || len(got) != operations {
		t.Errorf("%d effects, %v; want %d", len(got), err, operations)
	}
}

// A process with much to do does not keep another from the file.
func TestTwoStoresTakeTurns(t *testing.T) {
	path := databasePath(t)
	busy, modest := openAt(t, path), openAt(t, path)
	stop := make(chan struct{})
	const callers = 8
	errs := make(chan error, callers)
	for c := range callers {
		go func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					errs <- nil
					return
				default:
				}
				if err := executeOnce(bounded(t), busy, fmt.Sprintf("busy %d %d", c, i), nil); err != nil {
					errs <- err
					return
				}
			}
		}()
	}
	for i := range 20 {
		if err := executeOnce(bounded(t), modest, fmt.Sprintf("modest %d", i), nil); err != nil {
			t.Error(err)
			break
		}
	}
	close(stop)
	for range callers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}
