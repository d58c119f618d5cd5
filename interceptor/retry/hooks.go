package retry

import (
	"time"

	"google.golang.org/grpc/codes"
)

// Retry is a retry that is about to be made, as [WithOnRetry] sees it.
type Retry struct {
	// Method is the full method, "/package.Service/Method".
	Method string
	// Target is where the next attempt goes: the target of its connection.
	Target string
	// Attempts counts the attempts made so far, at all targets.
	Attempts int
	// Code and Err are what the last attempt answered.
	Code codes.Code
	Err  error
	// Wait is how long the call waits now. Zero where it moves to the next
	// target of [WithFailover].
	Wait time.Duration
	// Ceiling is what Wait was drawn below. Zero where the server or a
	// failover decided the wait.
	Ceiling time.Duration
	// Pushback says that the server asked for this wait.
	Pushback bool
	// Failover says that the next attempt goes to the next target.
	Failover bool
}
