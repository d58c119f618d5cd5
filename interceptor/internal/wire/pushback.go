package wire

import (
	"math"
	"strconv"
	"time"
)

// Pushback is what a server says of the next attempt.
type Pushback uint8

const (
	// PushbackNone: the server says nothing.
	PushbackNone Pushback = iota
	// PushbackWait: wait as long as it says, then try again.
	PushbackWait
	// PushbackStop: do not try again.
	PushbackStop
)

// StopValue is the value of [PushbackTrailer] that forbids a retry.
const StopValue = "-1"

// PushbackValue returns the value of [PushbackTrailer] that asks for a wait
// of d: whole milliseconds, rounded up, within what a reader can parse. A
// negative d gives [StopValue].
func PushbackValue(d time.Duration) string {
	if d < 0 {
		return StopValue
	}
	ms := int64(d / time.Millisecond)
	if d%time.Millisecond != 0 {
		ms++
	}
	return strconv.FormatInt(min(ms, math.MaxInt32), 10)
}

// ParsePushback reads the values of [PushbackTrailer] as gRFC A6 has it: a
// 32-bit integer of milliseconds. Negative, unparsable or more than one: stop.
func ParsePushback(values []string) (time.Duration, Pushback) {
	if len(values) == 0 {
		return 0, PushbackNone
	}
	if len(values) > 1 {
		return 0, PushbackStop
	}
	ms, err := strconv.ParseInt(values[0], 10, 32)
	if err != nil || ms < 0 {
		return 0, PushbackStop
	}
	return time.Duration(ms) * time.Millisecond, PushbackWait
}
