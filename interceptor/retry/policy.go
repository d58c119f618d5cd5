package retry

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
)

// What the zero fields of a [Policy] and its [Backoff] mean.
const (
	DefaultMaxAttempts = 3
	DefaultBase        = 100 * time.Millisecond
	DefaultCap         = 5 * time.Second
	DefaultMultiplier  = 2.0
)

// Policy bounds and spaces the attempts of one call. It says how a call is
// retried, never whether: that is its [Safety].
//
// A Policy is whole: a more specific one replaces a less specific one and is
// not merged with it. A zero field means the default, so the zero Policy is
// the default policy. A Policy is a value; interceptors keep a copy.
type Policy struct {
	// MaxAttempts counts all attempts at one target, the first included. Zero
	// means 3; 1 means no retries.
	MaxAttempts int
	// Backoff spaces the attempts.
	Backoff Backoff
	// PerAttemptTimeout bounds each attempt. An attempt that it ends is
	// retried as DEADLINE_EXCEEDED is, where the call has as much time left for
	// the next one: keep it to a fraction of the callers' deadlines. Zero means
	// no bound but the call's own.
	PerAttemptTimeout time.Duration
	// MaxElapsed bounds the whole call, waits and targets of [WithFailover]
	// included. Zero means no bound of its own; the caller's deadline always
	// holds.
	MaxElapsed time.Duration
	// Codes are the codes that are retried. Empty means UNAVAILABLE and
	// DEADLINE_EXCEEDED. What a server decided, such as NOT_FOUND, does not
	// belong here.
	Codes []codes.Code
}

// Backoff says how long to wait between two attempts. The n-th wait, counted
// from 0, stays below a ceiling of
//
//	d_n = min(Cap, Base * Multiplier^n)
//
// and [Jitter] draws it there. A server's pushback takes its place.
type Backoff struct {
	// Base is the ceiling of the first wait. Zero means 100 ms.
	Base time.Duration
	// Cap is the ceiling that no wait passes. Zero means 5 s, or Base where
	// that is longer.
	Cap time.Duration
	// Multiplier raises the ceiling from one wait to the next. Zero means 2;
	// otherwise it is at least 1.
	Multiplier float64
	// Jitter spreads the waits of clients that failed together. Zero means
	// [JitterFull].
	Jitter Jitter
	// Immediate means no wait at all. The other fields must be zero then.
	Immediate bool
}

// Jitter says how a wait is drawn below its ceiling d. The formulas are those
// of https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/.
type Jitter uint8

const (
	// JitterFull draws uniformly from 0 to d. The default.
	JitterFull Jitter = iota
	// JitterEqual draws uniformly from d/2 to d.
	JitterEqual
	// JitterDecorrelated draws uniformly from Base to three times the wait
	// before, and cuts at Cap. Multiplier has no part in it.
	JitterDecorrelated
	// JitterNone waits d itself. Clients that failed together come back
	// together: for tests, and for a client that is alone.
	JitterNone
)

// String returns "FULL", "EQUAL", "DECORRELATED" or "NONE".
func (j Jitter) String() string {
	switch j {
	case JitterFull:
		return "FULL"
	case JitterEqual:
		return "EQUAL"
	case JitterDecorrelated:
		return "DECORRELATED"
	case JitterNone:
		return "NONE"
	}
	return fmt.Sprintf("jitter_%d", uint8(j))
}

func (j Jitter) known() bool { return j <= JitterNone }

// fields names what a policy is made of, in the words of the place that it
// comes from.
type fields struct {
	attempts, base, cap, multiplier, jitter, perAttempt, elapsed string
}

var goFields = fields{
	attempts: "MaxAttempts", base: "Backoff.Base", cap: "Backoff.Cap", multiplier: "Backoff.Multiplier",
	jitter: "Backoff.Jitter", perAttempt: "PerAttemptTimeout", elapsed: "MaxElapsed",
}

// validate returns every mistake of p, each with the name of its field.
func (p Policy) validate(name fields) []error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if p.MaxAttempts < 0 {
		wrong("%s: %d is negative", name.attempts, p.MaxAttempts)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{name.base, p.Backoff.Base}, {name.cap, p.Backoff.Cap},
		{name.perAttempt, p.PerAttemptTimeout}, {name.elapsed, p.MaxElapsed},
	} {
		if d.value < 0 {
			wrong("%s: %v is negative", d.name, d.value)
		}
	}
	b := p.Backoff
	if base := cmp.Or(b.Base, DefaultBase); b.Cap > 0 && b.Cap < base {
		wrong("%s: %v is below the base of %v", name.cap, b.Cap, base)
	}
	if m := b.Multiplier; m != 0 && (math.IsNaN(m) || math.IsInf(m, 0) || m < 1) {
		wrong("%s: %v is not a number of at least 1", name.multiplier, m)
	}
	if !b.Jitter.known() {
		wrong("%s: %v is unknown", name.jitter, b.Jitter)
	}
	if b.Immediate && b != (Backoff{Immediate: true}) {
		wrong("Backoff.Immediate: no wait has no base, cap, multiplier or jitter")
	}
	for i, code := range p.Codes {
		if code == codes.OK || code > codes.Unauthenticated {
			wrong("Codes[%d]: %v is not the code of a failure", i, code)
		}
	}
	return errs
}

// rules is a Policy with every default filled in, made for the loop.
type rules struct {
	maxAttempts       int
	backoff           Backoff
	perAttemptTimeout time.Duration
	maxElapsed        time.Duration
	codes             uint32 // bit c is set where code c is retried
}

// rules returns what a valid p means.
func (p Policy) rules() *rules {
	b := p.Backoff
	if !b.Immediate {
		b.Base = cmp.Or(b.Base, DefaultBase)
		b.Cap = cmp.Or(b.Cap, max(DefaultCap, b.Base))
		b.Multiplier = cmp.Or(b.Multiplier, DefaultMultiplier)
	}
	retried := p.Codes
	if len(retried) == 0 {
		retried = []codes.Code{codes.Unavailable, codes.DeadlineExceeded}
	}
	r := &rules{
		maxAttempts:       cmp.Or(p.MaxAttempts, DefaultMaxAttempts),
		backoff:           b,
		perAttemptTimeout: p.PerAttemptTimeout,
		maxElapsed:        p.MaxElapsed,
	}
	for _, code := range retried {
		r.codes |= 1 << code
	}
	return r
}

func (r *rules) retries(code codes.Code) bool {
	return code < 32 && r.codes&(1<<code) != 0
}

// unbounded says that nothing but the caller bounds an attempt.
func (r *rules) unbounded() bool { return r.perAttemptTimeout == 0 && r.maxElapsed == 0 }

// clone keeps the caller's later changes to p out.
func (p Policy) clone() Policy {
	p.Codes = slices.Clone(p.Codes)
	return p
}
