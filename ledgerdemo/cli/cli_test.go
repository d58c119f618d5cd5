package cli

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"

	"github.com/retrysafe/retrysafe/internal/testserver"
	"github.com/retrysafe/retrysafe/ledgerdemo/database"
	"github.com/retrysafe/retrysafe/ledgerdemo/demo"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run runs a command line and returns what it wrote and its status.
func run(args ...string) (stdout, stderr string, status int) {
	var out, errs bytes.Buffer
	status = Main(args, strings.NewReader(""), &out, &errs)
	return out.String(), errs.String(), status
}

// serve runs "serve" with more flags until the test ends, and returns the
// address.
func serve(t *testing.T, flags ...string) (addr string) {
	t.Helper()
	stdin, stop := io.Pipe()
	lines, stdout := io.Pipe()
	ended := make(chan int, 1)
	args := append([]string{"serve", "-addr", "127.0.0.1:0", "-store", filepath.Join(t.TempDir(), "ledger.db"), "-stop-with-stdin", "-log-level", "ERROR"}, flags...)
	var errs bytes.Buffer
	go func() {
		status := Main(args, stdin, stdout, &errs)
		stdout.Close()
		ended <- status
	}()
	scan := bufio.NewScanner(lines)
	if !scan.Scan() {
		t.Fatalf("it ended with status %d: %s", <-ended, errs.String())
	}
	addr, ok := strings.CutPrefix(scan.Text(), demo.ListeningPrefix)
	if !ok {
		t.Errorf("it said %q", scan.Text())
	}
	drained := make(chan struct{})
	go func() { defer close(drained); _, _ = io.Copy(io.Discard, lines) }()
	t.Cleanup(func() {
		stop.Close()
		if status := <-ended; status != exitOK {
			t.Errorf("serve ended with status %d: %s", status, errs.String())
		}
		<-drained
	})
	return addr
}

// step is a command line and what it should come to.
type step struct {
	args   string
	status int
	stdout []string // parts of it, in order
	stderr []string
}

func play(t *testing.T, addr string, steps []step) {
	t.Helper()
	for _, s := range steps {
		stdout, stderr, status := run(append(strings.Fields(s.args), "-addr", addr)...)
		if status != s.status || !inOrder(stdout, s.stdout) || !inOrder(stderr, s.stderr) {
			t.Errorf("%s\nstatus %d, want %d\nstdout %q, want %q\nstderr %q, want %q",
				s.args, status, s.status, stdout, s.stdout, stderr, s.stderr)
		}
	}
}

// inOrder reports whether text holds the parts one after the other; and that
// it is empty where there are none.
func inOrder(text string, parts []string) bool {
	if len(parts) == 0 {
		return text == ""
	}
	for _, part := range parts {
		_, rest, ok := strings.Cut(text, part)
		if !ok {
			return false
		}
		text = rest
	}
	return true
}

func TestALedgerByHand(t *testing.T) {
	play(t, serve(t), []step{
		{args: "accounts open --account alice --deposit 100.00 --key k1",
			stdout: []string{"opened alice in EUR\n", "deposited EUR 100.00, balance EUR 100.00\n"}},
		{args: "accounts open --account alice --deposit 100.00 --key k1",
			stdout: []string{"opened alice in EUR (replayed", "deposited EUR 100.00, balance EUR 100.00 (replayed"}},
		{args: "debit --account alice --amount 12.50 --key order-42 --reference r1",
			stdout: []string{"debited EUR 12.50 from alice, balance EUR 87.50\nentry 3, 1 attempt, key order-42\n"}},
		{args: "debit --account alice --amount 12.50 --key order-42 --reference r1",
			stdout: []string{"replayed: ", "nothing was debited again\ndebited EUR 12.50 from alice, balance EUR 87.50\nentry 3, 1 attempt"}},
		{args: "debit --account alice --amount 12.51 --key order-42 --reference r1", status: exitFailed,
			stderr: []string{"refused, and nothing was changed", "IDEMPOTENCY_KEY_REUSED"}},
		{args: "debit --account alice --amount 1000 --key order-43", status: exitFailed,
			stderr: []string{"refused, and nothing was changed: the account lacks EUR 912.50 (FailedPrecondition, INSUFFICIENT_FUNDS)\n"}},
		{args: "debit --account alice --amount 1000 --key order-43", status: exitFailed,
			stderr: []string{"INSUFFICIENT_FUNDS", "replayed"}},
		{args: "debit --account alice --amount 7.50", stdout: []string{"debited EUR 7.50 from alice, balance EUR 80.00\n", "key "}},
		{args: "debit --account bob --amount 1", status: exitFailed, stderr: []string{"ACCOUNT_NOT_FOUND"}},
		{args: "debit --account alice --amount -1", status: exitFailed, stderr: []string{"amount.minor_units: is not positive"}},
		{args: "debit --account alice --amount 1 --currency JPY", status: exitFailed, stderr: []string{"the account holds EUR", "CURRENCY_MISMATCH"}},
		{args: "debit --account alice --amount 1 --key ä", status: exitFailed, stderr: []string{"IDEMPOTENCY_KEY_INVALID"}},
		{args: "accounts open --account alice", status: exitFailed, stderr: []string{"ACCOUNT_EXISTS"}},
		{args: "accounts open --account yuki --currency JPY", stdout: []string{"opened yuki in JPY\n"}},
		{args: "accounts show --account alice", stdout: []string{"alice holds EUR 80.00, open since "}},
		{args: "accounts show --account settlement:EUR", stdout: []string{"settlement:EUR holds EUR -80.00"}},
		{args: "accounts show --account nobody", status: exitFailed, stderr: []string{"ACCOUNT_NOT_FOUND"}},
		{args: "accounts entries --account alice",
			stdout: []string{"ENTRY", "credit", "EUR 100.00", "debit", "EUR -12.50", "EUR 87.50", "settlement:EUR", "r1", "EUR -7.50", "EUR 80.00"}},
		{args: "accounts entries --account nobody", status: exitFailed, stderr: []string{"ACCOUNT_NOT_FOUND"}},
		{args: "accounts entries --account alice --page-size -1", status: exitFailed, stderr: []string{"page_size: is negative"}},
	})
}

func TestADebitByHandOnEachStore(t *testing.T) {
	for _, flags := range [][]string{
		{"-store", testserver.Postgres(t)},
		{"-store", testserver.Redis(t), "-ledger", testserver.Postgres(t), "-prefix", "test-" + rand.Text() + ":", "-lease", "5s"},
	} {
		play(t, serve(t, flags...), []step{
			{args: "accounts open --account alice --deposit 100.00", stdout: []string{"opened alice", "deposited"}},
			{args: "debit --account alice --amount 12.50 --key order-42", stdout: []string{"balance EUR 87.50\n"}},
			{args: "debit --account alice --amount 12.50 --key order-42", stdout: []string{"replayed: ", "balance EUR 87.50\n"}},
			{args: "accounts show --account alice", stdout: []string{"alice holds EUR 87.50"}},
		})
	}
}

func TestPagesByHand(t *testing.T) {
	addr := serve(t)
	play(t, addr, []step{
		{args: "accounts open --account alice --deposit 3", stdout: []string{"opened", "deposited"}},
		{args: "debit --account alice --amount 1", stdout: []string{"balance EUR 2.00"}},
	})
	first, _, _ := run("accounts", "list", "-account", "alice", "-page-size", "1", "-addr", addr)
	_, token, ok := strings.Cut(first, "more: --page-token ")
	if !ok || !strings.Contains(first, "credit") || strings.Contains(first, "debit") {
		t.Fatalf("the first page is %q", first)
	}
	second, _, _ := run("accounts", "entries", "-account", "alice", "-page-size", "1", "-page-token", strings.TrimSpace(token), "-addr", addr)
	if !strings.Contains(second, "debit") || strings.Contains(second, "credit") || strings.Contains(second, "more:") {
		t.Errorf("the second page is %q", second)
	}
}

func TestALostResponseIsRetriedAndSaid(t *testing.T) {
	addr := serve(t, "--burst-every", "2", "--burst-length", "1")
	play(t, addr, []step{
		{args: "accounts open --account alice --deposit 100", stdout: []string{"opened", "deposited"}},
		{args: "debit --account alice --amount 1", stdout: []string{"balance EUR 99.00\n", "1 attempt"}},
		{args: "debit --account alice --amount 1", stdout: []string{"balance EUR 98.00\n", "2 attempts"}, stderr: []string{"attempt 1: Unavailable", "again in"}},
	})
}

func TestAnUnknownOutcomeIsSaidWithTheKey(t *testing.T) {
	addr := serve(t, "--lose-responses", "1")
	play(t, addr, []step{
		{args: "accounts open --account alice --deposit 100", stdout: []string{"opened", "deposited"}},
		{args: "debit --account alice --amount 1 --key order-42 --timeout 2s", status: exitFailed,
			stderr: []string{"attempt 1", "it is not known whether it was done", "--key order-42"}},
		{args: "accounts show --account alice", stdout: []string{"EUR 99.00"}},
	})
}

func TestWithoutDedupByHand(t *testing.T) {
	play(t, serve(t, "-without", "dedup"), []step{
		{args: "accounts open --account alice --deposit 100", stdout: []string{"opened", "deposited"}},
		{args: "debit --account alice --amount 1 --key k", stdout: []string{"balance EUR 99.00"}},
		{args: "debit --account alice --amount 1 --key k", stdout: []string{"balance EUR 98.00"}},
	})
}

func TestMistakesInTheCommandLineAreNamed(t *testing.T) {
	tests := []struct{ args, want, hint string }{
		{"foo", `"foo"`, `"ledgerdemo --help"`},
		{"-x", "unknown shorthand flag", `"ledgerdemo --help"`},
		{"--nope", "--nope", `"ledgerdemo --help"`},
		{"-operations many", "--operations", `"ledgerdemo --help"`},
		{"-operations 0", "operations: 0", `"ledgerdemo --help"`},
		{"-clients 0", "clients: 0", `"ledgerdemo --help"`},
		{"-kills 2000", "kills: 2000", `"ledgerdemo --help"`},
		{"-replicas 17", "replicas: 17", `"ledgerdemo --help"`},
		{"-terminations 1", "terminations: there is nothing to terminate", `"ledgerdemo --help"`},
		{"-store ledger.db", "store: an SQLite file is made anew", `"ledgerdemo --help"`},
		{"-store http://u:secret@h", `--store: "http" is none of`, `"ledgerdemo --help"`},
		{"-ledger postgres://h/d", "ledger: it is in the store", `"ledgerdemo --help"`},
		{"-store redis://h -ledger redis://h", "--ledger: a ledger is not kept in Redis", `"ledgerdemo --help"`},
		{"-without faults", `"faults" is not one of retries, dedup`, `"ledgerdemo --help"`},
		{"serve -without retries", `"retries" is not one of dedup`, `"ledgerdemo serve --help"`},
		{"serve --lose-responses 2", "LoseResponses: 2", `"ledgerdemo serve --help"`},
		{"serve --store=", "--store: is empty", `"ledgerdemo serve --help"`},
		{"serve --store mysql://u:secret@h/d", `--store: "mysql" is none of`, `"ledgerdemo serve --help"`},
		{"serve --ledger other.db", "--ledger: is for --store redis://... alone", `"ledgerdemo serve --help"`},
		{"serve --store redis://h --ledger redis://h", "--ledger: a ledger is not kept in Redis", `"ledgerdemo serve --help"`},
		{"serve --store redis://h --lease 0s", "--lease: 0s is not positive", `"ledgerdemo serve --help"`},
		{"serve --hold-records 2", "HoldRecords: 2", `"ledgerdemo serve --help"`},
		{"serve --log-level loud", "--log-level", `"ledgerdemo serve --help"`},
		{"serve ledger.db", `"ledger.db"`, `"ledgerdemo serve --help"`},
		{"debit", "--account is missing", `"ledgerdemo debit --help"`},
		{"debit --account a", "--amount is missing", `"ledgerdemo debit --help"`},
		{"debit --account a --amount 1 --key=", "--key: is empty; leave it out for a new one", `"ledgerdemo debit --help"`},
		{"debit --account a --amount 1 --timeout 0s", "--timeout: 0s is not positive", `"ledgerdemo debit --help"`},
		{"debit --account a --amount 1.234", "--amount: not an amount: \"1.234\": EUR has 2 decimals", `"ledgerdemo debit --help"`},
		{"debit --account a --amount 1 --currency EURO", `--currency: not an ISO 4217 code in use: "EURO"`, `"ledgerdemo debit --help"`},
		{"accounts shut", `"shut"`, `"ledgerdemo accounts --help"`},
		{"accounts open", "--account is missing", `"ledgerdemo accounts open --help"`},
		{"accounts open --account a --deposit 0", "--deposit: 0 is not positive", `"ledgerdemo accounts open --help"`},
		{"accounts open --account a --key=", "--key: is empty", `"ledgerdemo accounts open --help"`},
		{"accounts show", "--account is missing", `"ledgerdemo accounts show --help"`},
		{"accounts entries", "--account is missing", `"ledgerdemo accounts entries --help"`},
	}
	for _, tt := range tests {
		stdout, stderr, status := run(strings.Fields(tt.args)...)
		if status != exitUsage || stdout != "" || !strings.Contains(stderr, tt.want) || !strings.Contains(stderr, tt.hint) || strings.Contains(stderr, "secret") {
			t.Errorf("%s: status %d, stdout %q, stderr %q; want %q and %q", tt.args, status, stdout, stderr, tt.want, tt.hint)
		}
	}
}

func TestADemonstrationIsFilledInByItsStore(t *testing.T) {
	postgres, redis := database.URL{Kind: database.PostgreSQL}, database.URL{Kind: database.Redis}
	tests := []struct {
		name                          string
		store, ledger                 database.URL
		said                          []string
		operations                    int
		replicas, kills, terminations int
	}{
		{"a file", database.URL{}, database.URL{}, nil, 2000, 1, 2, 0},
		{"PostgreSQL", postgres, database.URL{}, nil, 2000, 3, 3, 10},
		{"Redis and a file", redis, database.URL{}, nil, 2000, 3, 3, 0},
		{"Redis and PostgreSQL", redis, postgres, nil, 2000, 3, 3, 10},
		{"a short run", postgres, database.URL{}, nil, 2, 3, 1, 1},
		{"what was said stays", postgres, database.URL{}, []string{"replicas", "kills", "terminations"}, 2000, 0, 2, 0},
	}
	for _, tt := range tests {
		f := demoFlags{config: demo.Config{Store: tt.store, Ledger: tt.ledger, Operations: tt.operations, Kills: 2}}
		f.fillIn(func(flag string) bool { return slices.Contains(tt.said, flag) })
		if c := f.config; c.Replicas != tt.replicas || c.Kills != tt.kills || c.Terminations != tt.terminations {
			t.Errorf("%s: %d replicas, %d kills, %d terminations", tt.name, c.Replicas, c.Kills, c.Terminations)
		}
	}
}

func TestHelpIsGivenForEveryCommand(t *testing.T) {
	for _, args := range []string{"--help", "-help", "-h", "serve --help", "debit -help", "accounts", "accounts open -h", "accounts show --help", "accounts entries --help"} {
		stdout, stderr, status := run(strings.Fields(args)...)
		if status != exitOK || stderr != "" || !strings.Contains(stdout, "Usage:\n  ledgerdemo") {
			t.Errorf("%s: status %d, stdout %q, stderr %q", args, status, stdout, stderr)
		}
	}
}

func TestEveryCommandAndFlagSaysWhatItIsFor(t *testing.T) {
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Short == "" {
			t.Errorf("%s has no description", c.CommandPath())
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s --%s has no description", c.CommandPath(), f.Name)
			}
		})
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit((&app{}).root())
}

func TestARefusalOfALaterAttemptSaysNothingOfAnEarlierOne(t *testing.T) {
	tests := []struct {
		code     codes.Code
		attempts int
		decided  bool
	}{
		{codes.FailedPrecondition, 1, true},
		{codes.FailedPrecondition, 2, true}, // an earlier attempt's outcome would have been replayed
		{codes.ResourceExhausted, 1, true},
		{codes.ResourceExhausted, 2, false},
		{codes.PermissionDenied, 2, false},
		{codes.Unavailable, 1, false},
		{codes.Aborted, 1, false},
		{codes.DeadlineExceeded, 1, false},
		{codes.Internal, 1, false},
	}
	for _, tt := range tests {
		if got := (&caller{attempts: tt.attempts}).decided(tt.code); got != tt.decided {
			t.Errorf("%v after %d attempts: decided %t", tt.code, tt.attempts, got)
		}
	}
}

func TestLongFlagsTakeOneDashOrTwo(t *testing.T) {
	tests := []struct{ in, want string }{
		{"-json", "--json"},
		{"--json", "--json"},
		{"-without retries", "--without retries"},
		{"-without=retries", "--without=retries"},
		{"debit -account a -amount -5", "debit --account a --amount -5"},
		{"-help", "--help"},
		{"-h", "-h"},
		{"-jsonx", "-jsonx"},
		{"-", "-"},
		{"-json -- -json", "--json -- -json"},
	}
	root := (&app{}).root()
	for _, tt := range tests {
		if got := longFlags(strings.Fields(tt.in), root); !slices.Equal(got, strings.Fields(tt.want)) {
			t.Errorf("%s becomes %v, want %s", tt.in, got, tt.want)
		}
	}
}

func TestAServerThatCannotStartSaysWhy(t *testing.T) {
	_, stderr, status := run("serve", "--addr", "127.0.0.1:0", "--store", filepath.Join(t.TempDir(), "no", "ledger.db"))
	if status != exitFailed || !strings.Contains(stderr, "ledger.db") {
		t.Errorf("status %d, %q", status, stderr)
	}
}
