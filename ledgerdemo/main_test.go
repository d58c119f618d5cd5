package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/retrysafe/retrysafe/ledgerdemo/cli"
)

// asProgram in the environment makes the test binary the program itself, which
// the demonstration starts as its server.
const asProgram = "LEDGERDEMO_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	if err := os.Setenv(asProgram, "1"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// figures are what -json prints.
type figures struct {
	Operations, Attempts, Retries, Replays, Executions, Doubled, Lost int64
	Expected                                                          int64 `json:"balance_expected"`
	Found                                                             int64 `json:"balance_found"`
	Kills                                                             int64 `json:"server_kills"`
	Replicas                                                          int64
	Terminations                                                      int64 `json:"session_terminations"`
	Unknown                                                           int64 `json:"unknown_outcomes"`
	OK                                                                bool
}

// keysOfAll are what -json prints of every run.
var keysOfAll = []string{"operations", "attempts", "retries", "replays", "executions", "doubled", "lost", "balance_expected", "balance_found", "server_kills", "ok"}

// demonstrate makes a short demonstration with a file and returns its figures
// and exit status.
func demonstrate(t *testing.T, flags ...string) (figures, int) {
	t.Helper()
	return demonstrateWith(t, keysOfAll, flags...)
}

// demonstrateWith wants those keys in what -json prints.
func demonstrateWith(t *testing.T, want []string, flags ...string) (figures, int) {
	t.Helper()
	dir := ownTemp(t)
	var stdout, stderr bytes.Buffer
	status := cli.Main(append([]string{"-json", "-operations", "200"}, flags...), strings.NewReader(""), &stdout, &stderr)
	t.Logf("%s%s", stderr.String(), stdout.String())
	wantEmpty(t, dir)
	var keys map[string]any
	if err := json.Unmarshal(stdout.Bytes(), &keys); err != nil {
		t.Fatalf("standard output is not one JSON object: %v", err)
	}
	for k := range keys {
		if !slices.Contains(want, k) {
			t.Errorf("a key %q", k)
		}
	}
	if len(keys) != len(want) {
		t.Errorf("%d keys, want %d", len(keys), len(want))
	}
	var f figures
	if err := json.Unmarshal(stdout.Bytes(), &f); err != nil {
		t.Fatal(err)
	}
	return f, status
}

// ownTemp makes the program put its folders into one of the test's own.
func ownTemp(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir) // Windows
	return dir
}

func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("it left %v behind", left)
	}
}

func TestUnderFaultsEachDebitIsMadeOnce(t *testing.T) {
	f, status := demonstrate(t)
	if status != 0 || !f.OK {
		t.Fatalf("status %d, ok %t", status, f.OK)
	}
	if f.Operations != 200 || f.Executions != 200 || f.Doubled != 0 || f.Lost != 0 || f.Expected != f.Found || f.Kills != 2 {
		t.Errorf("%+v", f)
	}
	if f.Retries == 0 || f.Replays == 0 || f.Attempts != f.Operations+f.Retries {
		t.Errorf("nothing was put to the test: %+v", f)
	}
}

func TestWithoutDedupDebitsAreDoubled(t *testing.T) {
	f, status := demonstrate(t, "-without", "dedup")
	if status != 1 || f.OK {
		t.Errorf("status %d, ok %t", status, f.OK)
	}
	if f.Doubled == 0 || f.Executions <= f.Operations || f.Found >= f.Expected || f.Replays != 0 {
		t.Errorf("%+v", f)
	}
}

func TestWithoutRetriesClientsDoNotKnow(t *testing.T) {
	f, status := demonstrate(t, "-without", "retries")
	if status != 1 || f.OK {
		t.Errorf("status %d, ok %t", status, f.OK)
	}
	if f.Retries != 0 || f.Attempts != f.Operations || f.Doubled != 0 || f.Lost != 0 || f.Found >= f.Expected {
		t.Errorf("%+v", f)
	}
}

func TestPlainLinesForPeople(t *testing.T) {
	dir := ownTemp(t)
	var stdout, stderr bytes.Buffer
	if status := cli.Main([]string{"-operations", "20", "-clients", "3", "-kills", "1", "-keep"}, strings.NewReader(""), &stdout, &stderr); status != 0 {
		t.Errorf("status %d", status)
	}
	if !strings.Contains(stdout.String(), "\nOK: every acknowledged debit") || !strings.Contains(stdout.String(), "\noperations ") {
		t.Errorf("standard output: %s", stdout.String())
	}
	if !strings.Contains(stderr.String(), "server killed after 10 debits") || strings.ContainsAny(stderr.String(), "\r\x1b") {
		t.Errorf("standard error: %q", stderr.String())
	}
	_, kept, ok := strings.Cut(stderr.String(), "kept: ")
	if !ok || !strings.HasPrefix(kept, dir) {
		t.Fatalf("standard error: %q", stderr.String())
	}
	for _, file := range []string{"ledger.db", "server.log"} {
		if _, err := os.Stat(strings.TrimSpace(kept) + string(os.PathSeparator) + file); err != nil {
			t.Error(err)
		}
	}
}

// begin starts a long demonstration as a process of its own and returns it
// with its server's address, once the load is on.
func begin(t *testing.T, flags ...string) (*exec.Cmd, string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, append([]string{"-operations", "100000", "-kills", "0"}, flags...)...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	if !lines.Scan() {
		t.Fatalf("it said nothing: %v", cmd.Wait())
	}
	addr, _, ok := strings.Cut(strings.TrimPrefix(lines.Text(), "server "), " ")
	if !ok {
		t.Errorf("it said %q", lines.Text())
	}
	drained := make(chan struct{})
	go func() { defer close(drained); _, _ = io.Copy(io.Discard, stderr) }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended, unless the test has failed
		<-drained
	})
	return cmd, addr
}

// wantGone waits until nobody listens on addr.
func wantGone(t *testing.T, addr string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			return
		}
		c.Close()
		if time.Now().After(deadline) {
			t.Fatal("the server has outlived the demonstration")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestTheServerDiesWithTheDemonstration(t *testing.T) {
	ownTemp(t)
	cmd, addr := begin(t)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	wantGone(t, addr)
}

func TestAnInterruptedDemonstrationLeavesNothingBehind(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot be interrupted there")
	}
	dir := ownTemp(t)
	cmd, addr := begin(t)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // its exit status is looked at
	if code := cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("it ended with status %d", code)
	}
	wantGone(t, addr)
	wantEmpty(t, dir)
}

func TestAnInterruptedDebitSaysWithWhichKeyToAskAgain(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot be interrupted there")
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "debit", "--account", "alice", "--amount", "1", "--addr", silent.Addr().String())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	conn, err := silent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // its exit status is looked at
	if code, said := cmd.ProcessState.ExitCode(), stderr.String(); code != 1 || !strings.Contains(said, "interrupted\nit is not known whether it was done; the same command with --key ") {
		t.Errorf("it ended with status %d: %s", code, said)
	}
}
