package faults

import "fmt"

// Kind is a kind of fault that an [Injector] makes.
type Kind uint8

const (
	// ResponseLost: the call was executed and its response thrown away. The
	// client gets UNAVAILABLE, as from a connection that broke.
	ResponseLost Kind = iota + 1
	// Refused: the call was answered UNAVAILABLE and not executed.
	Refused
	// Slowed: the call was held up, before or after its execution.
	Slowed
	// Held: the call was held up when its handler had done its work, before
	// the outcome was recorded.
	Held
)

const minKind, maxKind = ResponseLost, Held

// String returns the kind's name in words.
func (k Kind) String() string {
	switch k {
	case ResponseLost:
		return "response lost"
	case Refused:
		return "refused"
	case Slowed:
		return "slowed"
	case Held:
		return "held"
	}
	return fmt.Sprintf("kind_%d", uint8(k))
}

// ParseKind is String's inverse.
func ParseKind(name string) (Kind, bool) {
	for k := minKind; k <= maxKind; k++ {
		if k.String() == name {
			return k, true
		}
	}
	return 0, false
}
