package dedup

import (
	"errors"
	"fmt"
	"time"
)

// Operation is what [Engine.Do] is asked to do once.
type Operation struct {
	// Key is the operation's identity. Its ID may not be empty. The engine sets
	// no other bound to its parts; whoever takes them from a client does.
	Key Key
	// Fingerprint is of the request. A key that comes back with another one is
	// refused. The zero Fingerprint is one value like any other: requests that
	// all have it are not told apart.
	Fingerprint Fingerprint
	// Retention is how long the outcome is remembered, 1 ms or more. 0: the
	// engine's.
	Retention time.Duration
	// Lease is how long the claim lives without being renewed, 1 ms or more. 0:
	// the engine's.
	Lease time.Duration
	// MaxExecution bounds the execution. 0: the engine's.
	MaxExecution time.Duration
	// OnUnknown says what follows where it is not known whether an earlier
	// execution took effect.
	OnUnknown UnknownPolicy
}

// UnknownPolicy says what is done with an operation of which it is not known
// whether it executed: its claim's lease ended without a settlement.
type UnknownPolicy uint8

const (
	// Reexecute executes it again, under a higher fence.
	Reexecute UnknownPolicy = iota
	// Reject answers [ErrOutcomeUnknown]. That may also be the answer where it
	// never executed: its process died between claim and execution, or the
	// store gave the claim and could not be reached any more to say so.
	Reject
)

// String returns the policy's name in lower case.
func (p UnknownPolicy) String() string {
	switch p {
	case Reexecute:
		return "reexecute"
	case Reject:
		return "reject"
	}
	return fmt.Sprintf("unknown_policy_%d", uint8(p))
}

// Result is how an operation was answered.
type Result struct {
	// Outcome is what the operation answered, now or when it was executed.
	Outcome Outcome
	// Replayed says that this call did not execute the operation: Outcome is
	// that of an earlier or a concurrent one.
	Replayed bool
	// Waited says that this call waited for another that was executing the
	// operation.
	Waited bool
	// Unrecorded says that the operation took effect and that a repeat will
	// not get this Outcome, because it could not be recorded, or not yet. It
	// does not happen in a store that promises [ExactlyOnce].
	Unrecorded bool
}

// complete returns op with the engine's defaults where it says nothing, and
// every mistake in it at once.
func (op Operation) complete(s *settings) (Operation, error) {
	var noKey, badPolicy error
	if op.Key.ID == "" {
		noKey = ErrNoKey
	}
	if op.OnUnknown > Reject {
		badPolicy = fmt.Errorf("dedup: Operation.OnUnknown: %v does not exist", op.OnUnknown)
	}
	err := errors.Join(noKey, badPolicy,
		orKept("Operation.Retention", &op.Retention, s.retention),
		orKept("Operation.Lease", &op.Lease, s.lease),
		orDefault("Operation.MaxExecution", &op.MaxExecution, s.maxExecution),
	)
	return op, err
}
