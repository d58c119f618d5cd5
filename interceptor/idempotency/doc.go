// Package idempotency lets a gRPC handler run once for each idempotency key
// and answers every repeat with the original response.
package idempotency
