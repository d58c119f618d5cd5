package dedup

import (
	"context"
	"fmt"
	"time"
)

// Observer is told of operations and store calls, for metrics. A function may
// be nil. They are called by many goroutines at once, on the path of the call,
// so they must be quick. None is given a key, a request or a response; method
// is [Key.Method].
type Observer struct {
	// Operation is called when an operation has its answer. Elapsed includes
	// the waiting and the execution.
	Operation func(ctx context.Context, method string, d Disposition, elapsed time.Duration)
	// StoreCall is called after each call of the store.
	StoreCall func(ctx context.Context, method string, c StoreCall, elapsed time.Duration, err error)
	// Held is called with 1 when a claim has been got, and with -1 when its
	// execution has ended.
	Held func(ctx context.Context, method string, delta int)
	// Unrecorded is called for each execution that took effect and whose
	// outcome could not be recorded when its caller was answered.
	Unrecorded func(ctx context.Context, method string)
}

// Disposition says how a call of [Engine.Do] was answered.
type Disposition uint8

// The dispositions.
const (
	// DispositionExecuted: this call executed the operation.
	DispositionExecuted Disposition = iota + 1
	// DispositionReplayed: the outcome was recorded before this call came.
	DispositionReplayed
	// DispositionWaited: it waited for another that executed the operation, and
	// got that one's outcome.
	DispositionWaited
	// DispositionReused: the key came before with another request.
	DispositionReused
	// DispositionInProgress: another still executes it and the wait is over.
	DispositionInProgress
	// DispositionUnknown: it is not known whether the operation executed.
	DispositionUnknown
	// DispositionCancelled: the caller's context ended first.
	DispositionCancelled
	// DispositionFailed: the store or the record failed, or the call was not
	// a valid one.
	DispositionFailed
)

// String returns the disposition's name in lower case with underscores.
func (d Disposition) String() string {
	switch d {
	case DispositionExecuted:
		return "executed"
	case DispositionReplayed:
		return "replayed"
	case DispositionWaited:
		return "waited"
	case DispositionReused:
		return "reused"
	case DispositionInProgress:
		return "in_progress"
	case DispositionUnknown:
		return "unknown"
	case DispositionCancelled:
		return "cancelled"
	case DispositionFailed:
		return "failed"
	}
	return fmt.Sprintf("disposition_%d", uint8(d))
}

// StoreCall is one kind of call that the engine makes to a store.
type StoreCall uint8

// The store calls.
const (
	StoreCallClaim StoreCall = iota + 1
	StoreCallWait
	StoreCallRenew
	StoreCallComplete
	StoreCallRelease
)

// String returns the call's name in lower case.
func (c StoreCall) String() string {
	switch c {
	case StoreCallClaim:
		return "claim"
	case StoreCallWait:
		return "wait"
	case StoreCallRenew:
		return "renew"
	case StoreCallComplete:
		return "complete"
	case StoreCallRelease:
		return "release"
	}
	return fmt.Sprintf("store_call_%d", uint8(c))
}
