package retry

import (
	"google.golang.org/grpc"
)

// Disable makes the call with one attempt, bounded as the policy bounds one. A
// key is sent as ever, and the error is the attempt's own, untouched.
func Disable() grpc.CallOption {
	return callOption{disable: true}
}

// CallPolicy makes the call by p instead of the method's policy. It replaces
// that policy whole: a zero field of p means the default, not the method's
// value. An invalid p fails the call with INVALID_ARGUMENT before anything is
// sent.
func CallPolicy(p Policy) grpc.CallOption {
	p = p.clone()
	return callOption{policy: &p}
}

// CallSafety overrides the method's safety class for the call, in either
// direction. An unknown class fails the call with INVALID_ARGUMENT before
// anything is sent.
func CallSafety(safety Safety) grpc.CallOption {
	return callOption{safety: safety, hasSafety: true}
}

// callOption is a call option that only this package's interceptor reads. It
// does not pass it on.
type callOption struct {
	grpc.EmptyCallOption
	disable   bool
	policy    *Policy
	safety    Safety
	hasSafety bool
}

// ownedOption tells a retry interceptor below that this one owns the retries.
// It travels with the call's options because they, unlike a context, can be
// handed down without allocating.
type ownedOption struct {
	grpc.EmptyCallOption
}

// callSettings is what the options of one call say.
type callSettings struct {
	callOption
	owned bool // an interceptor above owns the retries
	mine  bool // some options are ours, and stay here
}

func readOptions(opts []grpc.CallOption) callSettings {
	var s callSettings
	for _, o := range opts {
		switch o := o.(type) {
		case ownedOption:
			s.owned = true
		case callOption:
			s.mine = true
			s.disable = s.disable || o.disable
			if o.policy != nil {
				s.policy = o.policy
			}
			if o.hasSafety {
				s.safety, s.hasSafety = o.safety, true
			}
		}
	}
	return s
}

// appendForeign appends to dst those of opts that are not this package's
// settings.
func appendForeign(dst, opts []grpc.CallOption) []grpc.CallOption {
	for _, o := range opts {
		if _, ours := o.(callOption); !ours {
			dst = append(dst, o)
		}
	}
	return dst
}
