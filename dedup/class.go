package dedup

import (
	"fmt"

	"google.golang.org/grpc/codes"
)

// Class says what becomes of an operation whose handler has answered.
type Class uint8

const (
	// Terminal: the answer is the operation's outcome. It is recorded, and
	// every repeat gets it.
	Terminal Class = iota + 1
	// NoEffect: the operation did not take place. Its claim is released and
	// the next attempt executes.
	NoEffect
	// Uncertain: it may have taken place in part. A transactional store undoes
	// it and releases the claim; any other store holds the claim to the end of
	// its lease, after which the method's policy decides.
	Uncertain
)

// Classify returns the class of an answer by its code.
//
//	Terminal   OK, INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS,
//	           FAILED_PRECONDITION, OUT_OF_RANGE
//	NoEffect   UNAUTHENTICATED, PERMISSION_DENIED, UNIMPLEMENTED,
//	           RESOURCE_EXHAUSTED, UNAVAILABLE, ABORTED
//	Uncertain  INTERNAL, UNKNOWN, DATA_LOSS, CANCELLED, DEADLINE_EXCEEDED, and
//	           any code that is not a canonical one
func Classify(code codes.Code) Class {
	switch code {
	case codes.OK, codes.InvalidArgument, codes.NotFound, codes.AlreadyExists,
		codes.FailedPrecondition, codes.OutOfRange:
		return Terminal
	case codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented,
		codes.ResourceExhausted, codes.Unavailable, codes.Aborted:
		return NoEffect
	}
	return Uncertain
}

// String returns the class's name in words.
func (c Class) String() string {
	switch c {
	case Terminal:
		return "terminal"
	case NoEffect:
		return "no effect"
	case Uncertain:
		return "uncertain"
	}
	return fmt.Sprintf("class_%d", uint8(c))
}
