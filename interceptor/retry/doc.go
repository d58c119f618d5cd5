// Package retry retries gRPC calls that may be retried, inside the caller's
// deadline, under one idempotency key.
package retry
