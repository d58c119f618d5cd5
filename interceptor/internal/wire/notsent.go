package wire

import (
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// notSent is the error of a call that its client refused.
type notSent struct{ st *status.Status }

// NotSent returns the status of a call that the client was asked to make in a
// wrong way and that it has not sent: no server said this.
func NotSent(code codes.Code, message string) error {
	return &notSent{status.New(code, message)}
}

// WasNotSent says whether err is, or wraps, one of [NotSent].
func WasNotSent(err error) bool {
	var e *notSent
	return errors.As(err, &e)
}

// Error is that of the status.
func (e *notSent) Error() string { return e.st.Err().Error() }

// GRPCStatus returns the status.
func (e *notSent) GRPCStatus() *status.Status { return e.st }
