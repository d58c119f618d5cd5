package retry

import "fmt"

// Safety says whether a second attempt of a method can do harm.
//
// A key alone does not make a call safe: the server must honour it. So the
// class is stated, never guessed. It comes from, strongest first: the call
// option [CallSafety]; [WithMethodSafety]; the key of the method's
// retrysafe.v1.policy option in its .proto (REQUIRED and OPTIONAL:
// [SafetyKeyed]); protobuf's own idempotency_level (NO_SIDE_EFFECTS and
// IDEMPOTENT: [SafetySafe]). Nothing said: [SafetyUnsafe].
type Safety uint8

const (
	// SafetyUnsafe: a second attempt may execute the call twice, so there is
	// one attempt. The zero value.
	SafetyUnsafe Safety = iota
	// SafetySafe: executing the call twice does no harm. It is retried
	// without a key.
	SafetySafe
	// SafetyKeyed: the server deduplicates by idempotency key. The call is
	// retried, and every attempt carries the same key.
	SafetyKeyed
)

// String returns "UNSAFE", "SAFE" or "KEYED".
func (s Safety) String() string {
	switch s {
	case SafetyUnsafe:
		return "UNSAFE"
	case SafetySafe:
		return "SAFE"
	case SafetyKeyed:
		return "KEYED"
	}
	return fmt.Sprintf("safety_%d", uint8(s))
}

func (s Safety) known() bool { return s <= SafetyKeyed }
