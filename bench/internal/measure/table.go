package measure

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Verdicts as the table shows them.
const (
	passed    = "pass"
	failed    = "FAIL"
	notNeeded = "the other suffices"
)

// Table writes findings, one line for each figure.
type Table struct {
	out    *tabwriter.Writer
	failed int
}

// NewTable returns a table that is written to w.
func NewTable(w io.Writer) *Table {
	t := &Table{out: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	t.line("gate", "figure", "measured", "quartiles", "limit", "verdict")
	return t
}

// Add adds a gate's findings, or the error that kept it from having any.
func (t *Table) Add(gate string, findings []Finding, err error) {
	for _, finding := range findings {
		t.add(gate, finding)
		gate = ""
	}
	if err != nil {
		t.failed++
		t.line(gate, "error: "+err.Error(), "", "", "", failed)
	}
}

func (t *Table) add(gate string, finding Finding) {
	holds := finding.Holds()
	if !holds {
		t.failed++
	}
	for _, f := range finding {
		limit, verdict := "", ""
		if f.Limit.Exists() {
			limit = string(f.Limit.relation) + " " + f.Unit.Format(f.Limit.bound)
			verdict = verdictOn(f, holds)
		}
		quartiles := ""
		if f.Value.Low != f.Value.High {
			quartiles = f.Unit.Format(f.Value.Low) + " to " + f.Unit.Format(f.Value.High)
		}
		t.line(gate, f.What, f.Unit.Format(f.Value.Median), quartiles, limit, verdict)
		gate = ""
	}
}

func verdictOn(f Figure, holds bool) string {
	switch {
	case f.Holds():
		return passed
	case holds:
		return notNeeded
	}
	return failed
}

// line writes to a tabwriter, which keeps errors for Flush.
func (t *Table) line(gate, figure, measured, quartiles, limit, verdict string) {
	fmt.Fprintf(t.out, "%s\t%s\t%s\t%s\t%s\t%s\n", gate, figure, measured, quartiles, limit, verdict)
}

// Close writes the table and returns how many findings failed.
func (t *Table) Close() (int, error) { return t.failed, t.out.Flush() }
