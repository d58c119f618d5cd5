package dedup

import "google.golang.org/grpc/codes"

// Outcome is what an executed operation answered. The zero Outcome is the OK
// of an operation with nothing to say, and is recorded like any other.
type Outcome struct {
	// Code is the canonical status code.
	Code codes.Code
	// Message is the status's message.
	Message string
	// Details are the status's details.
	Details []Payload
	// Response is what an operation that ended OK returned.
	Response Payload
	// Header and Trailer are metadata to be sent again with a replay. Keys are
	// lower case; a key may have several values, and one that ends in "-bin"
	// has any bytes.
	Header, Trailer map[string][]string
}

// Payload is a typed value in bytes.
type Payload struct {
	// Type names what Value holds, such as the full name of a protobuf message.
	Type string
	// Value is its encoding.
	Value []byte
}
