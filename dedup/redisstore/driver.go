package redisstore

import (
	"context"
	"time"
)

// Driver is a Redis client as a [Store] needs it. Implementations are safe for
// concurrent use. An error that Redis sent has Redis' own text at the
// beginning of its message, such as "NOSCRIPT ...".
//
// A Driver may repeat a command whose reply was lost.
type Driver interface {
	// SetNew sends SET key value NX GET PX ttl, with ttl in milliseconds. It
	// returns what the key held, or false where it held nothing and so holds
	// value now.
	SetNew(ctx context.Context, key, value string, ttl time.Duration) (old string, held bool, err error)

	// Get sends GET key to a master. It returns false where the key holds
	// nothing.
	Get(ctx context.Context, key string) (value string, held bool, err error)

	// EvalSha sends EVALSHA. The script's reply is an integer. In a cluster it
	// goes to the master of the keys, which share one slot.
	EvalSha(ctx context.Context, sha1 string, keys, args []string) (int64, error)

	// Eval sends EVAL, otherwise as EvalSha.
	Eval(ctx context.Context, script string, keys, args []string) (int64, error)

	// Info sends INFO to each master and returns the replies.
	Info(ctx context.Context) ([]string, error)

	// Listen subscribes to a channel. It calls listening when the subscription
	// is confirmed, and again where it was interrupted, and heard with each
	// message, from one goroutine at a time. It returns when ctx ends, or with
	// an error when the connection is lost.
	Listen(ctx context.Context, channel string, listening func(), heard func(message string)) error
}
