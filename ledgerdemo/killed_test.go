package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/testserver"
	"github.com/retrysafe/retrysafe/ledgerdemo/cli"
	"github.com/retrysafe/retrysafe/ledgerdemo/demo"
	"github.com/retrysafe/retrysafe/ledgerdemo/faults"
)

// serving is a server that runs as a process of its own.
type serving struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
	addr  string
}

func serve(t *testing.T, flags ...string) *serving {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, append([]string{"serve", "--addr", "127.0.0.1:0", "--stop-with-stdin", "--log-level", "ERROR"}, flags...)...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &serving{t: t, cmd: cmd, lines: bufio.NewScanner(stdout)}
	t.Cleanup(func() { stdin.Close(); s.kill() })
	s.addr = strings.TrimPrefix(s.await(demo.ListeningPrefix), demo.ListeningPrefix)
	return s
}

// await returns the next line that begins so.
func (s *serving) await(prefix string) string {
	s.t.Helper()
	for s.lines.Scan() {
		if strings.HasPrefix(s.lines.Text(), prefix) {
			return s.lines.Text()
		}
	}
	s.t.Fatalf("the server has ended and has not said %q", prefix)
	return ""
}

// kill kills the server, unless it has ended, and returns what it said that
// nobody has read.
func (s *serving) kill() string {
	_ = s.cmd.Process.Kill() // fails only where it has ended
	var rest strings.Builder
	for s.lines.Scan() {
		rest.WriteString(s.lines.Text() + "\n")
	}
	_ = s.cmd.Wait() // it was killed
	return rest.String()
}

// command runs a command against the server and returns its status and output.
func (s *serving) command(line string) (int, string) {
	var out bytes.Buffer
	status := cli.Main(append(strings.Fields(line), "--addr", s.addr), strings.NewReader(""), &out, io.Discard)
	return status, out.String()
}

// The server is killed when the debit is made and before its outcome is
// recorded; then the client repeats.
func TestAKillBetweenADebitAndItsRecord(t *testing.T) {
	redis := func(t *testing.T) []string {
		return []string{"--store", testserver.Redis(t), "--prefix", "test-" + rand.Text() + ":", "--lease", "1s"}
	}
	file := func(t *testing.T) string { return filepath.Join(t.TempDir(), "ledger.db") }
	tests := []struct {
		name    string
		flags   func(*testing.T) []string
		balance string
		unknown bool
	}{
		{"SQLite: once", func(t *testing.T) []string { return []string{"--store", file(t)} }, "EUR 90.00", false},
		{"PostgreSQL: once", func(t *testing.T) []string { return []string{"--store", testserver.Postgres(t)} }, "EUR 90.00", false},
		{"Redis, the ledger in a file: nobody knows, so again", func(t *testing.T) []string {
			return append(redis(t), "--ledger", file(t))
		}, "EUR 80.00", true},
		{"Redis, the ledger in PostgreSQL: nobody knows, so again", func(t *testing.T) []string {
			return append(redis(t), "--ledger", testserver.Postgres(t))
		}, "EUR 80.00", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			flags := tt.flags(t)
			first := serve(t, append(flags, "--hold-records", "1", "--hold-by", "1m")...)
			if status, out := first.command("accounts open --account alice --deposit 100"); status != 0 {
				t.Fatal(out)
			}
			const debit = "debit --account alice --amount 10 --key order-42 --timeout 3s"
			answered := make(chan int, 1)
			go func() {
				status, _ := first.command(debit)
				answered <- status
			}()
			first.await(demo.FaultPrefix + faults.Held.String())
			first.kill()
			if status := <-answered; status == 0 {
				t.Error("the client was told that the debit is made")
			}
			second := serve(t, flags...)
			eventually(t, func() bool { status, _ := second.command(debit); return status == 0 })
			if _, out := second.command("accounts show --account alice"); !strings.Contains(out, tt.balance) {
				t.Errorf("%s, want %s", out, tt.balance)
			}
			if unknown := strings.Contains(second.kill(), demo.UnknownLine); unknown != tt.unknown {
				t.Errorf("the outcome was said to be unknown: %t, want %t", unknown, tt.unknown)
			}
		})
	}
}

func eventually(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); {
		if time.Now().After(deadline) {
			t.Fatal("it does not come")
		}
	}
}
