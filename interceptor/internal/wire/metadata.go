package wire

// Metadata names. All are lower case, as gRPC sends them.
const (
	// KeyHeader carries the idempotency key: exactly one value, the same on
	// every attempt.
	KeyHeader = "idempotency-key"
	// OwnerHeader names the layer that owns the retries of this hop.
	OwnerHeader = "retry-owner"
	// AttemptsHeader counts the attempts before this one (gRFC A6). Absent on
	// the first.
	AttemptsHeader = "grpc-previous-rpc-attempts"
	// ReplayedHeader is "true" on a replay: in the header, and in the trailer
	// where the replay is an error.
	ReplayedHeader = "idempotency-replayed"
	// PushbackTrailer says how long to wait before the next attempt, or that
	// there shall be none (gRFC A6).
	PushbackTrailer = "grpc-retry-pushback-ms"
)

// Replayed is the only value of [ReplayedHeader].
const Replayed = "true"
