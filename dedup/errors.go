package dedup

import (
	"errors"
	"fmt"
	"time"
)

// What the engine answers instead of an outcome. None of them holds a key, a
// request or a response.
var (
	// ErrKeyReused: the key came before with another request.
	ErrKeyReused = errors.New("dedup: the key came before with another request")
	// ErrInProgress: the first attempt still runs and the wait is over. It
	// comes as an [*InProgressError].
	ErrInProgress = errors.New("dedup: the first attempt is still in progress")
	// ErrOutcomeUnknown: it is not known whether the operation executed, and
	// it may not execute a second time.
	ErrOutcomeUnknown = errors.New("dedup: it is not known whether the operation executed")
	// ErrStoreUnavailable: the store cannot be reached, or its transaction did
	// not go through. It comes as a [*StoreError]. Repeating the call with its
	// key is safe.
	ErrStoreUnavailable = errors.New("dedup: store is unavailable")
	// ErrRecordUnreadable: the recorded outcome cannot be read.
	ErrRecordUnreadable = errors.New("dedup: the recorded outcome cannot be read")
	// ErrNoKey: the operation's [Key] has no ID.
	ErrNoKey = errors.New("dedup: Operation.Key.ID is empty")
	// ErrNested: a handler asked for an operation that it is itself executing.
	ErrNested = errors.New("dedup: the operation is already being executed by this call")
)

// ErrNoEffect is for handlers. An error that wraps it says that the operation
// did not take place, so that its claim is released and the next attempt
// executes.
var ErrNoEffect = errors.New("dedup: the operation had no effect")

// What stores answer.
var (
	// ErrFull: the store takes no new operation now. Nothing was recorded.
	ErrFull = errors.New("dedup: store is full")
	// ErrTooLarge: the outcome is larger than the store or the engine keeps.
	// Nothing was recorded.
	ErrTooLarge = errors.New("dedup: outcome is too large to keep")
	// ErrLeaseLost: the claim is no longer the operation's latest, so that it
	// can be neither renewed nor settled.
	ErrLeaseLost = errors.New("dedup: the claim has been lost")
)

// InProgressError is [ErrInProgress] with a hint.
type InProgressError struct {
	// RetryAfter is when asking again makes sense: what is left of the
	// present claim's lease where the store knows, and never long.
	RetryAfter time.Duration
}

// Error implements error.
func (e *InProgressError) Error() string {
	return fmt.Sprintf("%v: ask again in %v", ErrInProgress, e.RetryAfter)
}

// Is makes errors.Is(err, ErrInProgress) true.
func (e *InProgressError) Is(target error) bool { return target == ErrInProgress }

// StoreError is [ErrStoreUnavailable] with its cause.
type StoreError struct {
	// Op is what was being done: "claim" or "complete".
	Op    string
	cause error
}

// Error implements error.
func (e *StoreError) Error() string {
	return fmt.Sprintf("%v: %s: %v", ErrStoreUnavailable, e.Op, e.cause)
}

// Is makes errors.Is(err, ErrStoreUnavailable) true.
func (e *StoreError) Is(target error) bool { return target == ErrStoreUnavailable }

// Unwrap returns the store's own error.
func (e *StoreError) Unwrap() error { return e.cause }
