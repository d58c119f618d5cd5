package retry

import (
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Reason says why there was no further attempt.
type Reason uint8

const (
	// ReasonMaxAttempts: the policy's attempts are used up.
	ReasonMaxAttempts Reason = iota + 1
	// ReasonDeadline: the caller's deadline has passed, or the next wait and
	// an attempt after it would not fit before it.
	ReasonDeadline
	// ReasonMaxElapsed: as ReasonDeadline, for [Policy.MaxElapsed].
	ReasonMaxElapsed
	// ReasonBudget: the target's token budget ([WithBudget]) allows no retry.
	ReasonBudget
	// ReasonPushback: the server asked not to retry.
	ReasonPushback
	// ReasonNotRetrySafe: the method's class is [SafetyUnsafe]. The call may
	// have executed.
	ReasonNotRetrySafe
	// ReasonOwnedUpstream: a layer above owns the retries: a retry interceptor
	// above this one, or [Own].
	ReasonOwnedUpstream
)

// String returns the name, such as "MAX_ATTEMPTS".
func (r Reason) String() string {
	switch r {
	case ReasonMaxAttempts:
		return "MAX_ATTEMPTS"
	case ReasonDeadline:
		return "DEADLINE"
	case ReasonMaxElapsed:
		return "MAX_ELAPSED"
	case ReasonBudget:
		return "BUDGET"
	case ReasonPushback:
		return "PUSHBACK"
	case ReasonNotRetrySafe:
		return "NOT_RETRY_SAFE"
	case ReasonOwnedUpstream:
		return "OWNED_UPSTREAM"
	}
	return fmt.Sprintf("reason_%d", uint8(r))
}

// BudgetExhausted says that retries were allowed and ran out: of attempts,
// time, tokens, or the server's patience. It is false for
// [ReasonNotRetrySafe] and [ReasonOwnedUpstream], where there were none to
// begin with.
func (r Reason) BudgetExhausted() bool {
	return r >= ReasonMaxAttempts && r <= ReasonPushback
}

// ExhaustedError is what a call returns that failed in a way that could be
// retried, and was not retried further.
//
//	var ex *retry.ExhaustedError
//	if errors.As(err, &ex) && ex.Reason.BudgetExhausted() { ... }
//
// status.Code and status.Convert give the last attempt's status, details
// included. A failure that cannot be retried, such as NOT_FOUND, is not
// wrapped, whichever attempt it answers.
type ExhaustedError struct {
	// Reason says what ended the call.
	Reason Reason
	// Method is the full method, "/package.Service/Method".
	Method string
	// Attempts counts the attempts that were made, at all targets.
	Attempts int
	// Waited is the time spent between attempts.
	Waited time.Duration

	key func() string // nil: none. A function, as nothing that prints values looks into one
	err error
}

func hidden(key string) func() string {
	if key == "" {
		return nil
	}
	return func() string { return key }
}

// Error names the method, the reason and the last attempt's error. It never
// shows the key.
func (e *ExhaustedError) Error() string {
	attempts := "attempts"
	if e.Attempts == 1 {
		attempts = "attempt"
	}
	return fmt.Sprintf("retry: %s: %v after %d %s: %v", e.Method, e.Reason, e.Attempts, attempts, e.err)
}

// Unwrap returns the last attempt's error.
func (e *ExhaustedError) Unwrap() error { return e.err }

// GRPCStatus returns the last attempt's status.
func (e *ExhaustedError) GRPCStatus() *status.Status { return statusOf(e.err) }

// IdempotencyKey returns the key that every attempt carried, or "" where they
// carried none. A later call of the method with that key, through
// idempotency.WithKey, continues this operation instead of starting another, where
// the same caller makes the same request. Keep it out of logs.
func (e *ExhaustedError) IdempotencyKey() string {
	if e.key == nil {
		return ""
	}
	return e.key()
}

// canceledError is what a caller gets that cancelled between two attempts.
type canceledError struct {
	method   string
	attempts int
	ctx      error // the context's own error
	cause    error // context.Cause, the same as ctx where no other was given
	last     error // the last attempt's error
}

func (e *canceledError) Error() string {
	return fmt.Sprintf("retry: %s: %v after attempt %d: %v", e.method, e.cause, e.attempts, e.last)
}

// Unwrap lets errors.Is find the context's error and the last attempt's.
func (e *canceledError) Unwrap() []error { return []error{e.ctx, e.cause, e.last} }

func (e *canceledError) GRPCStatus() *status.Status {
	return status.New(codes.Canceled, e.Error())
}
