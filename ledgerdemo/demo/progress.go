package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Lines is a [Progress] that writes a plain line for each event and each tenth
// of the debits. It is not safe for concurrent use.
type Lines struct {
	w      io.Writer
	tenths int
}

// NewLines returns a Lines that writes to w.
func NewLines(w io.Writer) *Lines { return &Lines{w: w} }

// Say implements [Progress].
func (l *Lines) Say(event string) { fmt.Fprintln(l.w, event) }

// Step implements [Progress].
func (l *Lines) Step(done, of int) {
	if tenths := 10 * done / of; tenths > l.tenths {
		l.tenths = tenths
		fmt.Fprintf(l.w, "%s of %s debits\n", group(int64(done)), group(int64(of)))
	}
}

// redrawEvery bounds how often the bar is drawn.
const redrawEvery = 50 * time.Millisecond

// Bar is a [Progress] for a terminal: a bar on the last line, and above it a
// line for each event. It is not safe for concurrent use.
type Bar struct {
	w     io.Writer
	width func() int
	now   func() time.Time
	drawn time.Time
	line  string // what stands on the last line
}

// NewBar returns a Bar that writes to w, a terminal of which width returns the
// number of columns.
func NewBar(w io.Writer, width func() int) *Bar {
	return &Bar{w: w, width: width, now: time.Now}
}

// clearLine goes to the beginning of the line and empties it.
const clearLine = "\r\x1b[2K"

// Say implements [Progress].
func (b *Bar) Say(event string) {
	if b.line == "" {
		fmt.Fprintln(b.w, event)
		return
	}
	fmt.Fprintf(b.w, "%s%s\n%s", clearLine, event, b.line)
}

// Step implements [Progress].
func (b *Bar) Step(done, of int) {
	now := b.now()
	if done < of && now.Sub(b.drawn) < redrawEvery {
		return
	}
	b.drawn = now
	b.line = b.draw(done, of)
	fmt.Fprint(b.w, clearLine, b.line)
	if done == of {
		fmt.Fprintln(b.w)
		b.line = ""
	}
}

// Close ends the line that the bar stands on, where a run has ended before its
// last debit.
func (b *Bar) Close() {
	if b.line != "" {
		fmt.Fprintln(b.w)
		b.line = ""
	}
}

// draw fits the bar into one line; where that is too narrow for a bar it is
// the figures alone.
func (b *Bar) draw(done, of int) string {
	figures := fmt.Sprintf("%s of %s debits", group(int64(done)), group(int64(of)))
	cells := min(b.width()-len(figures)-4, 50)
	if cells < 5 {
		return figures
	}
	full := cells * done / of
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", cells-full) + "] " + figures
}
