package idempotency

import "fmt"

// Requirement says whether calls of a method carry an idempotency key.
type Requirement uint8

const (
	// KeyNone: the method takes no key and is not deduplicated.
	KeyNone Requirement = iota + 1
	// KeyOptional: a call with a key is deduplicated, one without is not.
	KeyOptional
	// KeyRequired: a call without a key is refused.
	KeyRequired
)

// String returns the requirement's name in lower case.
func (r Requirement) String() string {
	switch r {
	case KeyNone:
		return "none"
	case KeyOptional:
		return "optional"
	case KeyRequired:
		return "required"
	}
	return fmt.Sprintf("requirement_%d", uint8(r))
}
