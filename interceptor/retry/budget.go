package retry

import (
	"fmt"
	"math"
	"sync/atomic"
)

// The default [Budget]: gRFC A6's ratio, and a bucket that one broken
// connection with some dozens of calls in flight does not empty.
const (
	DefaultMaxTokens  = 100
	DefaultTokenRatio = 0.1
)

// Budget bounds the retries that all calls to one target make together, by
// the arithmetic of gRFC A6's retryThrottling. The bucket starts full. A
// retryable failure takes one token, whether or not it is retried; a success
// gives TokenRatio back; retries are made while the bucket is more than half
// full. So, once half of it is used up, at most about TokenRatio of a target's
// load is retries, and an outage is not multiplied by the attempts.
//
// Tokens count in thousandths. Failures that are not retried by their code
// take nothing, nor do calls that are [SafetyUnsafe] or owned by another
// layer.
type Budget struct {
	// MaxTokens is the size of the bucket. Zero means 100; at most 1000.
	MaxTokens float64
	// TokenRatio is what a success gives back. Zero means 0.1; at least 0.001.
	TokenRatio float64
}

var goBudgetFields = [2]string{"MaxTokens", "TokenRatio"}

// validate returns every mistake of b, each with the name of its field.
func (b Budget) validate(name [2]string) []error {
	var errs []error
	if m := b.MaxTokens; m != 0 && !(m >= 0.001 && m <= 1000) {
		errs = append(errs, fmt.Errorf("%s: %v is not between 0.001 and 1000", name[0], m))
	}
	if r := b.TokenRatio; r != 0 && (!(r >= 0.001) || math.IsInf(r, 0)) {
		errs = append(errs, fmt.Errorf("%s: %v is not a number of at least 0.001", name[1], r))
	}
	return errs
}

func (b Budget) withDefaults() Budget {
	if b.MaxTokens == 0 {
		b.MaxTokens = DefaultMaxTokens
	}
	if b.TokenRatio == 0 {
		b.TokenRatio = DefaultTokenRatio
	}
	return b
}

// bucket holds the tokens of one target. A nil bucket allows everything.
type bucket struct {
	max, ratio int64        // thousandths
	tokens     atomic.Int64 // thousandths, 0 to max
}

const token = 1000

// newBucket returns a full bucket for a valid b without zeros.
func newBucket(b Budget) *bucket {
	k := &bucket{max: int64(math.Round(b.MaxTokens * token))}
	k.ratio = int64(math.Round(min(b.TokenRatio, b.MaxTokens) * token))
	k.tokens.Store(k.max)
	return k
}

// take takes a token for a retryable failure and reports whether a retry may
// follow.
func (k *bucket) take() bool {
	if k == nil {
		return true
	}
	for {
		have := k.tokens.Load()
		left := max(0, have-token)
		if k.tokens.CompareAndSwap(have, left) {
			return 2*left > k.max
		}
	}
}

// give returns what a success gives back and reports whether that changed
// anything. A full bucket is only read, so that calls which succeed do not
// contend for it.
func (k *bucket) give() bool {
	if k == nil {
		return false
	}
	for {
		have := k.tokens.Load()
		if have >= k.max {
			return false
		}
		if k.tokens.CompareAndSwap(have, min(k.max, have+k.ratio)) {
			return true
		}
	}
}

func (k *bucket) full() bool { return k == nil || k.tokens.Load() >= k.max }

// level returns the tokens left.
func (k *bucket) level() float64 { return float64(k.tokens.Load()) / token }
