package wire

import (
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Domain is the domain of every ErrorInfo that the suite makes.
const Domain = "retrysafe"

// Reason is the ErrorInfo reason of an error that the suite makes.
type Reason string

// The reasons, with the code that each comes with.
const (
	ReasonKeyRequired      Reason = "IDEMPOTENCY_KEY_REQUIRED" // FAILED_PRECONDITION
	ReasonKeyInvalid       Reason = "IDEMPOTENCY_KEY_INVALID"  // INVALID_ARGUMENT
	ReasonKeyReused        Reason = "IDEMPOTENCY_KEY_REUSED"   // FAILED_PRECONDITION
	ReasonInProgress       Reason = "IDEMPOTENCY_IN_PROGRESS"  // UNAVAILABLE, with pushback
	ReasonStoreUnavailable Reason = "DEDUP_STORE_UNAVAILABLE"  // UNAVAILABLE
	ReasonStoreFull        Reason = "DEDUP_STORE_FULL"         // RESOURCE_EXHAUSTED
	ReasonOutcomeTooLarge  Reason = "OUTCOME_TOO_LARGE"        // RESOURCE_EXHAUSTED
	ReasonRecordUnreadable Reason = "RECORD_UNREADABLE"        // INTERNAL
	ReasonOutcomeUnknown   Reason = "OUTCOME_UNKNOWN"          // ABORTED
	ReasonMultipleOwners   Reason = "MULTIPLE_RETRY_OWNERS"    // FAILED_PRECONDITION
)

// codeOf is the table of the contract: each reason has one code.
func codeOf(reason Reason) codes.Code {
	switch reason {
	case ReasonKeyRequired, ReasonKeyReused, ReasonMultipleOwners:
		return codes.FailedPrecondition
	case ReasonKeyInvalid:
		return codes.InvalidArgument
	case ReasonInProgress, ReasonStoreUnavailable:
		return codes.Unavailable
	case ReasonStoreFull, ReasonOutcomeTooLarge:
		return codes.ResourceExhausted
	case ReasonRecordUnreadable:
		return codes.Internal
	case ReasonOutcomeUnknown:
		return codes.Aborted
	}
	return codes.Unknown
}

// Error returns a status with the reason's code and an ErrorInfo.
func Error(reason Reason, message string) error {
	return newError(reason, message)
}

// ErrorRetryAfter is [Error] with a RetryInfo: the call may be repeated after
// that time. The sender sets the pushback trailer as well.
func ErrorRetryAfter(reason Reason, message string, after time.Duration) error {
	return newError(reason, message, &errdetails.RetryInfo{RetryDelay: durationpb.New(after)})
}

func newError(reason Reason, message string, more ...protoadapt.MessageV1) error {
	st := status.New(codeOf(reason), "retrysafe: "+message)
	info := &errdetails.ErrorInfo{Domain: Domain, Reason: string(reason)}
	detailed, err := st.WithDetails(append([]protoadapt.MessageV1{info}, more...)...)
	if err != nil { // only where st is OK or a detail does not marshal
		return st.Err()
	}
	return detailed.Err()
}

// ReasonOf returns the reason of an error that the suite made, on this side
// of the wire or the other.
func ReasonOf(err error) (Reason, bool) {
	st, ok := status.FromError(err)
	if !ok || st.Code() == codes.OK {
		return "", false
	}
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == Domain {
			return Reason(info.GetReason()), true
		}
	}
	return "", false
}
