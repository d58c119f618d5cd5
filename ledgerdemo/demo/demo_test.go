package demo

import (
	"bytes"
	"encoding/json"
	"errors"
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
	"github.com/retrysafe/retrysafe/ledgerdemo/database"
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

func ignore(string) {}

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
	sqlite := database.URL{Kind: database.SQLite, Address: "ledger.db"}
	postgres := database.URL{Kind: database.PostgreSQL, Address: "postgres://h/d"}
	redis := database.URL{Kind: database.Redis, Address: "redis://h"}
	good := Config{Operations: 20, Clients: 1, Server: []string{"x"}, Replicas: 3}
	for _, tt := range []struct {
		store, ledger database.URL
		terminations  int
		want          string // of the error
	}{
		{database.URL{}, database.URL{}, 0, ""},
		{postgres, database.URL{}, 10, ""},
		{redis, database.URL{}, 0, ""},
		{redis, postgres, 10, ""},
		{sqlite, database.URL{}, 0, "store: an SQLite file is made anew"},
		{redis, sqlite, 0, "ledger: an SQLite file is made anew"},
		{redis, redis, 0, "ledger: a ledger is not kept in Redis"},
		{postgres, postgres, 0, "ledger: it is in the store"},
		{database.URL{}, postgres, 0, "ledger: it is in the store"},
		{database.URL{}, database.URL{}, 1, "terminations: there is nothing to terminate"},
		{redis, database.URL{}, 1, "terminations: there is nothing to terminate"},
		{postgres, database.URL{}, 20, "terminations: 20"},
		{postgres, database.URL{}, -1, "terminations: -1"},
	} {
		c := good
		c.Store, c.Ledger, c.Terminations = tt.store, tt.ledger, tt.terminations
		err := c.Validate()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("store %v, ledger %v, %d terminations: %v, want %q", tt.store.Kind, tt.ledger.Kind, tt.terminations, err, tt.want)
		}
	}
	good.Replicas = 17
	if err := good.Validate(); err == nil || !strings.Contains(err.Error(), "replicas: 17") {
		t.Errorf("17 replicas: %v", err)
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
	c.Store.Kind = database.Redis
	if p := c.plan(0); p.HoldRecords == 0 || p.HoldBy >= attemptTimeout || p.Validate() != nil {
		t.Errorf("the gap before a record in Redis is not widened, or until the attempt times out: %+v", p)
	}
	c.WithoutDedup = true
	if p := c.plan(0); p.HoldRecords != 0 {
		t.Error("a gap is widened where nothing is recorded")
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
	reported := make(chan string, 3)
	p, err := startProcess(t.Context(), command, &log, func(line string) { reported <- line })
	if err != nil {
		t.Fatal(err)
	}
	if p.addr != "127.0.0.1:1" {
		t.Errorf("it listens on %q", p.addr)
	}
	if line := <-reported; line != FaultPrefix+"slowed" {
		t.Errorf("reported %q", line)
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
	p, err := startProcess(t.Context(), self(t, ListeningPrefix+"x\n"), &bytes.Buffer{}, ignore)
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
	_, err := startProcess(t.Context(), self(t, "no\n"), &bytes.Buffer{}, ignore)
	if err == nil || !strings.Contains(err.Error(), "a word on standard error") {
		t.Errorf("%v", err)
	}
	_, err = startProcess(t.Context(), []string{filepath.Join(t.TempDir(), "none")}, &bytes.Buffer{}, ignore)
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
	got, err = json.Marshal(result(func(r *Result) { r.OneAtATime, r.OnPostgreSQL, r.Replicas, r.Terminations = true, true, 3, 10 }))
	if err != nil {
		t.Fatal(err)
	}
	want = strings.Replace(want, `"ok"`, `"replicas":3,"session_terminations":10,"unknown_outcomes":0,"ok"`, 1)
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestTheVerdictOnRedisSaysWhatItPromises(t *testing.T) {
	onRedis := func(r *Result) { r.OneAtATime, r.Unknown, r.Audit.Doubled, r.Audit.Repeats = true, 7, 4, 5 }
	var b strings.Builder
	r := result(onRedis)
	if err := errors.Join(r.WriteTable(&b), r.WriteVerdict(&b)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"outcome unknown                 7  executions of debits that may have been made before\ndoubled                         4",
		"OK, by what Redis promises", "Not exactly once: 4 of them", "7 such debits were executed again", "5 had been made before",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s\nlacks %q", b.String(), want)
		}
	}
	if strings.Contains(b.String(), "COMMIT") || strings.Contains(b.String(), "sessions ended") {
		t.Errorf("%s\nspeaks of PostgreSQL", b.String())
	}
	r.OnPostgreSQL = true
	r.Audit.Findings = []string{"debits were made again 5 times, and only 4 times was the outcome of the time before unknown"}
	b.Reset()
	if err := errors.Join(r.WriteTable(&b), r.WriteVerdict(&b)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "sessions ended") || !strings.Contains(b.String(), "NOT OK:\n  debits were made again") || r.OK() {
		t.Error(b.String())
	}
}

func TestOnlySoManyRepeatsAreExcusedAsFaultsExplain(t *testing.T) {
	s := &stage{config: Config{Clients: 4}, kills: 2, terminations: 3}
	for unknown, want := range map[int]int{0: 0, 11: 11, 12: 11} {
		s.unknown = unknown
		if got := s.mayRepeat(); got != want {
			t.Errorf("of %d unknown outcomes %d are excused, want %d", unknown, got, want)
		}
	}
}

func TestWhatServersSayIsCounted(t *testing.T) {
	s := &stage{faults: map[string]int{}}
	for _, line := range []string{FaultPrefix + "held", "other", UnknownLine, FaultPrefix + "held", UnknownLine + "!"} {
		s.onLine(line)
	}
	if s.unknown != 1 || len(s.faults) != 1 || s.faults["held"] != 2 {
		t.Errorf("%d unknown, %v", s.unknown, s.faults)
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
	for _, k := range []faults.Kind{faults.ResponseLost, faults.Refused, faults.Slowed, faults.Held} {
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
