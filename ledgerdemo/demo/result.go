package demo

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/retrysafe/retrysafe/ledgerdemo/audit"
	"github.com/retrysafe/retrysafe/ledgerdemo/currency"
	"github.com/retrysafe/retrysafe/ledgerdemo/faults"
)

// Result is what came of a run.
type Result struct {
	// What the clients saw. Replays are attempts that were answered with an
	// outcome recorded before.
	Operations, Acknowledged   int
	Attempts, Retries, Replays int64
	// Failures are the answers to debits that were not acknowledged.
	Failures map[codes.Code]int
	// P50 and P99 are latencies of debits, with all attempts and waits.
	P50, P99 time.Duration

	// Place is where the ledger and the outcomes were, and Replicas how many
	// servers there were.
	Place    string
	Replicas int
	// OneAtATime: effect and outcome were not one transaction. Unknown counts
	// the executions of debits of which nobody knew whether they had been made
	// before. Each of them may have made a debit again.
	OneAtATime bool
	Unknown    int

	// What was broken. Terminations are of sessions in PostgreSQL. Faults are those that the server reported, by kind.
	Kills, Cuts  int
	OnPostgreSQL bool
	Terminations int
	Faults       map[string]int
	Wall         time.Duration

	// What the database says.
	Audit *audit.Report
}

// OK reports whether the audit found nothing: each acknowledged debit was made,
// and none was made again but for those that Unknown excuses.
func (r *Result) OK() bool { return r.Audit.OK() }

// MarshalJSON writes the figures, money in minor units. Those on replicas,
// sessions and unknown outcomes are there where they can be other than 1 and 0.
func (r *Result) MarshalJSON() ([]byte, error) {
	var unknown, terminations *int
	if r.OneAtATime {
		unknown = &r.Unknown
	}
	if r.OnPostgreSQL {
		terminations = &r.Terminations
	}
	replicas := r.Replicas
	if replicas == 1 {
		replicas = 0
	}
	return json.Marshal(struct {
		Operations      int   `json:"operations"`
		Attempts        int64 `json:"attempts"`
		Retries         int64 `json:"retries"`
		Replays         int64 `json:"replays"`
		Executions      int   `json:"executions"`
		Doubled         int   `json:"doubled"`
		Lost            int   `json:"lost"`
		BalanceExpected int64 `json:"balance_expected"`
		BalanceFound    int64 `json:"balance_found"`
		ServerKills     int   `json:"server_kills"`
		Replicas        int   `json:"replicas,omitempty"`
		Terminations    *int  `json:"session_terminations,omitempty"`
		Unknown         *int  `json:"unknown_outcomes,omitempty"`
		OK              bool  `json:"ok"`
	}{
		r.Operations, r.Attempts, r.Retries, r.Replays, r.Audit.Executions, r.Audit.Doubled, r.Audit.Lost,
		r.Audit.BalanceExpected, r.Audit.BalanceFound, r.Kills, replicas, terminations, unknown, r.OK(),
	})
}

// WriteTable writes the figures for people.
func (r *Result) WriteTable(w io.Writer) error {
	var text strings.Builder
	row := func(name, value, note string) {
		text.WriteString(strings.TrimRight(fmt.Sprintf("%-16s %16s  %s", name, value, note), " ") + "\n")
	}
	count := func(n int) string { return group(int64(n)) }

	row("operations", count(r.Operations), "debits that clients asked for")
	row("acknowledged", count(r.Acknowledged), r.failures())
	row("attempts", group(r.Attempts), "calls that they took")
	row("retries", group(r.Retries), "")
	row("replays", group(r.Replays), "attempts answered with the outcome of an earlier one")
	row("executions", count(r.Audit.Executions), "debits in the database")
	if r.OneAtATime {
		row("outcome unknown", count(r.Unknown), "executions of debits that may have been made before")
	}
	row("doubled", count(r.Audit.Doubled), "debits that stand there more than once")
	row("lost", count(r.Audit.Lost), "acknowledged debits that do not stand there")
	row("balance expected", currency.Format(r.Audit.BalanceExpected, currencyCode), "by what clients were told")
	row("balance found", currency.Format(r.Audit.BalanceFound, currencyCode), "in the database")
	row("p50 latency", milliseconds(r.P50), "of a debit with all its attempts")
	row("p99 latency", milliseconds(r.P99), "")
	row("wall time", fmt.Sprintf("%.1f s", r.Wall.Seconds()), "")
	row("server kills", count(r.Kills), "SIGKILL, and started again")
	if r.OnPostgreSQL {
		row("sessions ended", count(r.Terminations), "of the database, by pg_terminate_backend")
	}
	row("other faults", count(r.otherFaults()), r.faults())
	_, err := io.WriteString(w, text.String())
	return err
}

// WriteVerdict writes what the audit came to.
func (r *Result) WriteVerdict(w io.Writer) error {
	if r.OK() && r.OneAtATime {
		return r.writePromise(w)
	}
	if r.OK() {
		_, err := fmt.Fprintln(w, "OK: every acknowledged debit stands in the ledger exactly once, none stands there twice, and all entries sum to zero.")
		return err
	}
	_, err := fmt.Fprintf(w, "NOT OK:\n  %s\n", strings.Join(r.Audit.Findings, "\n  "))
	return err
}

// writePromise says what "at most one at a time" has come to.
func (r *Result) writePromise(w io.Writer) error {
	text := fmt.Sprintf("OK, by what Redis promises: every acknowledged debit stands in the ledger, and all entries sum to zero. "+
		"Not exactly once: %s of them stand there more than once.\n", group(int64(r.Audit.Doubled)))
	text += "A server that dies between a debit and its record leaves an outcome that nobody knows"
	if r.OnPostgreSQL {
		text += ", and so does a session that ends in its COMMIT"
	}
	text += fmt.Sprintf(".\nWhen the lease had ended, %s such debits were executed again, as their method's policy says; %s had been made before. "+
		"SQLite and PostgreSQL keep debit and record in one transaction, and leave none.\n",
		group(int64(r.Unknown)), group(int64(r.Audit.Repeats)))
	_, err := io.WriteString(w, text)
	return err
}

func (r *Result) failures() string {
	if len(r.Failures) == 0 {
		return ""
	}
	var parts []string
	for _, code := range slices.Sorted(maps.Keys(r.Failures)) {
		parts = append(parts, fmt.Sprintf("%s %s", group(int64(r.Failures[code])), code))
	}
	return "the others failed: " + strings.Join(parts, ", ")
}

func (r *Result) otherFaults() int {
	n := r.Cuts
	for _, k := range r.Faults {
		n += k
	}
	return n
}

func (r *Result) faults() string {
	parts := []string{group(int64(r.Cuts)) + " connections cut"}
	for _, kind := range slices.Sorted(maps.Keys(r.Faults)) {
		parts = append(parts, group(int64(r.Faults[kind]))+" "+inWords(kind))
	}
	return strings.Join(parts, ", ")
}

func inWords(kind string) string {
	switch k, _ := faults.ParseKind(kind); k {
	case faults.ResponseLost:
		return "responses lost after the commit"
	case faults.Refused:
		return "calls refused in bursts"
	case faults.Slowed:
		return "attempts slowed to time out"
	case faults.Held:
		return "executions held before their record"
	}
	return kind
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}

// group writes n with commas between thousands.
func group(n int64) string {
	digits, negative := strings.CutPrefix(strconv.FormatInt(n, 10), "-")
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if negative {
		return "-" + digits
	}
	return digits
}

// quantile returns the smallest of d that at least a share of q is not above.
func quantile(d []time.Duration, q float64) time.Duration {
	sorted := slices.SortedFunc(slices.Values(d), cmp.Compare)
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}
