package measure

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Figure is something measured, and the limit that it must keep, if any.
type Figure struct {
	What  string
	Value Spread
	Unit  Unit
	Limit Limit
}

// Exactly is the spread of a figure that has none.
func Exactly(v float64) Spread { return Spread{v, v, v} }

// Holds says whether the figure keeps its limit.
func (f Figure) Holds() bool { return f.Limit.holds(f.Value.Median) }

// Finding holds where one of its figures does. Figures without a limit stand
// alone and only tell.
type Finding []Figure

// Holds says whether one of the figures keeps its limit.
func (f Finding) Holds() bool {
	for _, figure := range f {
		if figure.Holds() {
			return true
		}
	}
	return false
}

// Limit bounds a figure. The zero Limit bounds nothing.
type Limit struct {
	relation relation
	bound    float64
}

type relation string

const (
	atMost  relation = "<="
	atLeast relation = ">="
	equal   relation = "="
)

// AtMost is the limit of what should be small.
func AtMost(bound float64) Limit { return Limit{atMost, bound} }

// AtLeast is the limit of what should be large.
func AtLeast(bound float64) Limit { return Limit{atLeast, bound} }

// Equal is the limit of what is counted.
func Equal(bound float64) Limit { return Limit{equal, bound} }

// Exists says whether there is a bound.
func (l Limit) Exists() bool { return l.relation != "" }

// holds is false for what is not a number.
func (l Limit) holds(v float64) bool {
	switch l.relation {
	case atMost:
		return v <= l.bound
	case atLeast:
		return v >= l.bound
	case equal:
		return v == l.bound
	}
	return true
}

// Unit says how a figure is written.
type Unit uint8

// The units of figures.
const (
	Count       Unit = iota
	Times            // a ratio
	Nanoseconds      // written as a duration
	PerSecond
	Byte
)

// Format writes a value.
func (u Unit) Format(v float64) string {
	switch u {
	case Times:
		return fmt.Sprintf("%.2fx", v)
	case Nanoseconds:
		return formatDuration(v)
	case PerSecond:
		return thousands(v) + "/s"
	case Byte:
		return thousands(v) + " B"
	}
	return thousands(v)
}

func formatDuration(ns float64) string {
	if math.IsNaN(ns) || ns < float64(time.Microsecond) {
		return fmt.Sprintf("%.1f ns", ns)
	}
	d := time.Duration(ns)
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%.1f µs", float64(d)/float64(time.Microsecond))
	case d < time.Second:
		return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

// thousands writes a number with its thousands apart, and with a decimal where
// it is small and has one.
func thousands(v float64) string {
	if math.IsNaN(v) || v != math.Trunc(v) && math.Abs(v) < 100 {
		return fmt.Sprintf("%.1f", v)
	}
	digits := fmt.Sprintf("%.0f", v)
	var b strings.Builder
	for i, digit := range digits {
		if left := len(digits) - i; i > 0 && left%3 == 0 && digits[i-1] != '-' {
			b.WriteByte(',')
		}
		b.WriteRune(digit)
	}
	return b.String()
}
