package demo

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"

	"github.com/retrysafe/retrysafe/ledgerdemo/audit"
	"github.com/retrysafe/retrysafe/ledgerdemo/faults"
)

// The whole run is tested beside the program that it starts as its server.

func TestMain(m *testing.M) {
	if say, ok := os.LookupEnv("DEMO_TEST_CHILD"); ok {
		child(say)
		return
	}
	goleak.VerifyTestMain(m)
}

// child is a server that says what it is told, and ends with its standard
// input.
func child(say string) {
	os.Stdout.WriteString(say)
	os.Stderr.WriteString("a word on standard error")
	if strings.HasPrefix(say, ListeningPrefix) {
		_, _ = os.Stdin.Read(make([]byte, 1)) // ends when it does
	}
}

func self(t *testing.T, say string) []string {
	t.Helper()
	t.Setenv("DEMO_TEST_CHILD", say)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{exe}
}

func TestAConfigurationTellsAllThatIsWrong(t *testing.T) {
	err := Config{Operations: -1, Clients: 1001, Kills: 5}.Validate()
	if err == nil {
		t.Fatal("taken")
	}
	for _, field := range []string{"operations", "clients", "kills", "server"} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
	if _, err := Run(t.Context(), Config{}); err == nil {
		t.Error("Run takes it")
	}
	if err := (Config{Operations: 2, Clients: 1, Kills: 1, Server: []string{"x"}}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestThePlanOfFaultsIsValidAndChangesWithEachStart(t *testing.T) {
	c := Config{Operations: 1, Seed: 7}
	if err := c.plan(0).Validate(); err != nil {
		t.Error(err)
	}
	if c.plan(0).Seed == c.plan(1).Seed {
		t.Error("a server that was started again makes the same faults")
	}
	if slowBy <= attemptTimeout {
		t.Error("a slowed attempt does not time out")
	}
}

func TestTheSameSeedMakesTheSameDebits(t *testing.T) {
	c := Config{Operations: 50, Seed: 7}
	a, b := newLoad(c).debits, newLoad(c).debits
	if !slices.Equal(a, b) {
		t.Error("they differ")
	}
	c.Seed++
	if slices.Equal(a, newLoad(c).debits) {
		t.Error("another seed makes them too")
	}
	seen := map[string]bool{}
	for _, d := range a {
		if seen[d.Reference] || d.MinorUnits < 1 || d.MinorUnits > maxAmount || d.Acknowledged {
			t.Errorf("%+v", d)
		}
		seen[d.Reference] = true
	}
}

func TestAProcessIsStartedFollowedAndStopped(t *testing.T) {
	command := self(t, ListeningPrefix+"127.0.0.1:1\nfault: slowed\nother\n"+strings.Repeat("x", 100_000)+"\n")
	var log bytes.Buffer
	reported := make(chan string, 1)
	p, err := startProcess(t.Context(), command, &log, func(kind string) { reported <- kind })
	if err != nil {
		t.Fatal(err)
	}
	if p.addr != "127.0.0.1:1" {
		t.Errorf("it listens on %q", p.addr)
	}
	if kind := <-reported; kind != "slowed" {
		t.Errorf("reported %q", kind)
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "a word on standard error") {
		t.Errorf("the log has %q", log.String())
	}
	p.kill() // does no harm
}

func TestAKilledProcessIsGone(t *testing.T) {
	p, err := startProcess(t.Context(), self(t, ListeningPrefix+"x\n"), &bytes.Buffer{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.kill()
	if p.cmd.ProcessState == nil {
		t.Error("it was not waited for")
	}
	if err := p.stop(); err == nil && runtime.GOOS != "windows" {
		t.Error("a killed process has stopped well")
	}
}

func TestAProcessThatDoesNotStartSaysWhy(t *testing.T) {
	_, err := startProcess(t.Context(), self(t, "no\n"), &bytes.Buffer{}, nil)
	if err == nil || !strings.Contains(err.Error(), "a word on standard error") {
		t.Errorf("%v", err)
	}
	_, err = startProcess(t.Context(), []string{filepath.Join(t.TempDir(), "none")}, &bytes.Buffer{}, nil)
	if err == nil {
		t.Error("a program that does not exist has started")
	}
}

// result is a run in which all went well but for what change says.
func result(change func(*Result)) *Result {
	r := &Result{
		Operations: 2000, Acknowledged: 2000, Attempts: 2345, Retries: 345, Replays: 99,
		P50: 4567 * time.Microsecond, P99: 2 * time.Second, Wall: 3456 * time.Millisecond,
		Kills: 2, Cuts: 50,
		Faults: map[string]int{faults.ResponseLost.String(): 114, faults.Refused.String(): 180, faults.Slowed.String(): 23, "new": 1},
		Audit:  &audit.Report{Executions: 2000, BalanceExpected: 31499335, BalanceFound: 31499335},
	}
	change(r)
	return r
}

func TestTheJSONHasTheAgreedKeys(t *testing.T) {
	got, err := json.Marshal(result(func(*Result) {}))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"operations":2000,"attempts":2345,"retries":345,"replays":99,"executions":2000,"doubled":0,"lost":0,` +
		`"balance_expected":31499335,"balance_found":31499335,"server_kills":2,"ok":true}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestTheTableSaysWhatWasFound(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Result)
		want   string
	}{
		{"all well", func(*Result) {}, `operations                  2,000  debits that clients asked for
acknowledged                2,000
attempts                    2,345  calls that they took
retries                       345
replays                        99  attempts answered with the outcome of an earlier one
executions                  2,000  debits in the database
doubled                         0  debits that stand there more than once
lost                            0  acknowledged debits that do not stand there
balance expected    EUR 314993.35  by what clients were told
balance found       EUR 314993.35  in the database
p50 latency                4.6 ms  of a debit with all its attempts
p99 latency             2000.0 ms
wall time                   3.5 s
server kills                    2  SIGKILL, and started again
other faults                  368  50 connections cut, 1 new, 180 calls refused in bursts, 114 responses lost after the commit, 23 attempts slowed to time out
OK: every acknowledged debit stands in the ledger exactly once, none stands there twice, and all entries sum to zero.
`},
		{"not well", func(r *Result) {
			r.Acknowledged, r.Failures = 1990, map[codes.Code]int{codes.Unavailable: 8, codes.DeadlineExceeded: 2}
			r.Cuts, r.Faults = 0, nil
			r.Audit.Doubled, r.Audit.Findings = 1, []string{"debits that stand in the ledger more than once: 1", "another"}
		}, `operations                  2,000  debits that clients asked for
acknowledged                1,990  the others failed: 2 DeadlineExceeded, 8 Unavailable
attempts                    2,345  calls that they took
retries                       345
replays                        99  attempts answered with the outcome of an earlier one
executions                  2,000  debits in the database
doubled                         1  debits that stand there more than once
lost                            0  acknowledged debits that do not stand there
balance expected    EUR 314993.35  by what clients were told
balance found       EUR 314993.35  in the database
p50 latency                4.6 ms  of a debit with all its attempts
p99 latency             2000.0 ms
wall time                   3.5 s
server kills                    2  SIGKILL, and started again
other faults                    0  0 connections cut
NOT OK:
  debits that stand in the ledger more than once: 1
  another
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			r := result(tt.change)
			if err := r.WriteTable(&b); err != nil {
				t.Fatal(err)
			}
			if err := r.WriteVerdict(&b); err != nil {
				t.Fatal(err)
			}
			if b.String() != tt.want {
				t.Errorf("got\n%s\nwant\n%s", b.String(), tt.want)
			}
		})
	}
}

func TestEachKindOfFaultHasWords(t *testing.T) {
	for _, k := range []faults.Kind{faults.ResponseLost, faults.Refused, faults.Slowed} {
		if inWords(k.String()) == k.String() {
			t.Errorf("%v has none", k)
		}
	}
}

func TestGroup(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", -999: "-999"} {
		if got := group(n); got != want {
			t.Errorf("group(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestQuantile(t *testing.T) {
	d := make([]time.Duration, 100)
	for i := range d {
		d[i] = time.Duration(100 - i) // 1 to 100, the wrong way round
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := quantile(d, q); got != want {
			t.Errorf("quantile(%v) = %d, want %d", q, got, want)
		}
	}
	if got := quantile([]time.Duration{7}, 0.99); got != 7 {
		t.Errorf("of one: %d", got)
	}
	if d[0] != 100 {
		t.Error("the durations were sorted in place")
	}
}

func TestPlainLines(t *testing.T) {
	var b strings.Builder
	l := NewLines(&b)
	l.Say("begin")
	for i := 1; i <= 1234; i++ {
		l.Step(i, 1234)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 11 || lines[1] != "124 of 1,234 debits" || lines[10] != "1,234 of 1,234 debits" {
		t.Errorf("%q", lines)
	}
	if strings.ContainsAny(b.String(), "\r\x1b") {
		t.Error("control characters in plain lines")
	}
}

func TestBar(t *testing.T) {
	var b strings.Builder
	bar := NewBar(&b, func() int { return 40 })
	now := time.Unix(1, 0)
	bar.now = func() time.Time { return now }
	bar.Say("begin")
	bar.Step(1, 4)
	bar.Step(2, 4) // too soon
	bar.Say("killed")
	now = now.Add(time.Second)
	bar.Step(3, 4)
	bar.Step(4, 4) // the last is always drawn
	bar.Say("end")
	bar.Close()
	const clear = "\r\x1b[2K"
	one := "[#####..................] 1 of 4 debits"
	want := "begin\n" + clear + one + clear + "killed\n" + one +
		clear + "[#################......] 3 of 4 debits" + clear + "[#######################] 4 of 4 debits\n" + "end\n"
	if b.String() != want {
		t.Errorf("got  %q\nwant %q", b.String(), want)
	}
}

func TestABarOnANarrowTerminalIsItsFigures(t *testing.T) {
	var b strings.Builder
	bar := NewBar(&b, func() int { return 10 })
	bar.Step(1, 4)
	bar.Close()
	if want := "\r\x1b[2K1 of 4 debits\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}
