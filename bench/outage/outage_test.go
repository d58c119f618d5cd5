package outage

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"text/tabwriter"

	"github.com/retrysafe/retrysafe/interceptor/retry"
)

// attempts is how many a call needs to outlive the outage.
const attempts = 12

func patient(jitter retry.Jitter) retry.Option {
	return retry.WithPolicy(retry.Policy{MaxAttempts: attempts, Backoff: retry.Backoff{Jitter: jitter}})
}

var (
	impatient = retry.WithPolicy(retry.Policy{MaxAttempts: attempts, Backoff: retry.Backoff{Immediate: true}})
	noBudget  = retry.WithoutBudget()

	atOnce       = fleet{"12 attempts at once", 100, []retry.Option{impatient, noBudget}}
	none         = fleet{"12 attempts, no jitter", 100, []retry.Option{patient(retry.JitterNone), noBudget}}
	equal        = fleet{"12 attempts, equal jitter", 100, []retry.Option{patient(retry.JitterEqual), noBudget}}
	decorrelated = fleet{"12 attempts, decorrelated jitter", 100, []retry.Option{patient(retry.JitterDecorrelated), noBudget}}
	full         = fleet{"12 attempts, full jitter", 100, []retry.Option{patient(retry.JitterFull), noBudget}}
	three        = fleet{"3 attempts, full jitter", 100, []retry.Option{noBudget}}
	defaults     = fleet{"3 attempts, full jitter, token budget: the defaults", 100, nil}
	single       = fleet{"the defaults, each client a process of its own", clients, nil}

	fleets = []fleet{atOnce, none, equal, decorrelated, full, three, defaults, single}
)

// TestOutage runs the simulation and checks what docs/scaling.md says of it.
func TestOutage(t *testing.T) {
	results := make(map[string]result)
	for _, f := range fleets {
		synctest.Test(t, func(t *testing.T) {
			r, err := f.run()
			if err != nil {
				t.Fatal(err)
			}
			results[f.name] = r
		})
	}
	t.Log("\n" + table(results))
	of := func(f fleet) result { return results[f.name] }
	for _, claim := range []struct {
		says  string
		holds bool
	}{
		{"clients without jitter come back together, and the server drowns", of(none).herd() > 5},
		{"with full jitter it has about as much to do as it can", of(full).herd() < 1.2},
		{"full jitter is back sooner than none", of(full).recovered < of(none).recovered},
		{"patient calls with full jitter outlive the outage", of(full).failed*100 < of(full).calls},
		{"retrying at once multiplies the load on what is down", of(atOnce).whileDown > 10*clients},
		{"the budget does not", of(defaults).whileDown < 1.1*clients},
		{"the budget keeps retries near a tenth at most", of(defaults).perCall() < 1.1},
		{"a budget bounds nothing where each client has its own", of(single).whileDown > 2*clients},
	} {
		if !claim.holds {
			t.Errorf("not so: %s", claim.says)
		}
	}
}

func table(results map[string]result) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "clients\tcalls\tfailed\tattempts for a call\tattempts/s while down\tbusiest 100 ms after the return\tas before after")
	for _, f := range fleets {
		r := results[f.name]
		fmt.Fprintf(w, "%s\t%d\t%d\t%.2f\t%.0f\t%d = %.1fx\t%v\n", f.name, r.calls, r.failed,
			r.perCall(), r.whileDown, r.worstSlice, r.herd(), r.recovered.Round(slice))
	}
	_ = w.Flush() // a strings.Builder takes everything
	return b.String()
}
