// Package key holds the rules of the idempotency key: what one may look like,
// how one is made, and where a call carries it.
//
// package idempotency is its public face.
package key
