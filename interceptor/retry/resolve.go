package retry

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	retrysafev1 "github.com/retrysafe/retrysafe/gen/retrysafe/v1"
	"github.com/retrysafe/retrysafe/interceptor/internal/method"
)

// maxPlans bounds the memory of a proxy that calls methods by names it is
// given: beyond that many, plans are made anew for each call.
const maxPlans = 1024

// slots is how many plans are found without a look into the map.
const slots = 32

// plan is how the calls of one method are made.
type plan struct {
	method   string
	safety   Safety
	rules    *rules
	timeout  time.Duration     // of the whole call; 0: none
	plain    bool              // nothing but the class and a backoff is said
	known    bool              // the method is in this program's registry
	keyField protoreflect.Name // of the request, holds the key; "": none does
	err      error             // what its .proto says cannot be followed
}

// planner makes plans and keeps them.
type planner struct {
	policies method.Table[*rules]
	timeouts method.Table[time.Duration]
	safeties method.Table[Safety]
	fallback *rules
	observed bool // someone wants to know of each attempt

	mu    sync.Mutex // held to replace plans
	plans atomic.Pointer[map[string]*plan]
	near  [slots]atomic.Pointer[plan]
}

// plan returns the plan of a method. Plans are read far more often than made,
// so they are in a map that is never written to: a new plan makes a new map.
// The first plan that comes to a slot of near stays there, so that most
// look-ups are one comparison, mostly of a constant string with itself.
func (p *planner) plan(fullMethod string) *plan {
	slot := &p.near[slotOf(fullMethod)]
	if found := slot.Load(); found != nil && found.method == fullMethod {
		return found
	}
	if kept := p.plans.Load(); kept != nil {
		if found, ok := (*kept)[fullMethod]; ok {
			return found
		}
	}
	made := p.add(fullMethod)
	slot.CompareAndSwap(nil, made)
	return made
}

// slotOf spreads methods by what differs most between them.
func slotOf(fullMethod string) int {
	n := len(fullMethod)
	if n < 2 {
		return 0
	}
	return (n ^ int(fullMethod[n-1]) ^ int(fullMethod[n/2])<<2) % slots
}

func (p *planner) add(fullMethod string) *plan {
	made := p.resolve(fullMethod)
	p.mu.Lock()
	defer p.mu.Unlock()
	plans := make(map[string]*plan)
	if kept := p.plans.Load(); kept != nil {
		if found, ok := (*kept)[fullMethod]; ok {
			return found
		}
		if len(*kept) >= maxPlans {
			return made
		}
		maps.Copy(plans, *kept)
	}
	plans[fullMethod] = made
	p.plans.Store(&plans)
	return made
}

func (p *planner) resolve(fullMethod string) *plan {
	said, known := method.Describe(fullMethod)
	made := &plan{method: fullMethod, known: known, keyField: protoreflect.Name(said.Policy.GetKeyField())}
	made.timeout, _ = p.timeouts.Lookup(fullMethod)
	made.safety = p.safety(fullMethod, said)
	made.rules, made.err = p.rules(fullMethod, said)
	made.plain = made.err == nil && made.timeout == 0 && !p.observed && made.rules.unbounded()
	return made
}

func (p *planner) safety(fullMethod string, said method.Description) Safety {
	if s, ok := p.safeties.Lookup(fullMethod); ok {
		return s
	}
	switch said.Policy.GetKey() {
	case retrysafev1.MethodPolicy_KEY_REQUIRED, retrysafev1.MethodPolicy_KEY_OPTIONAL:
		return SafetyKeyed
	}
	if said.Safe {
		return SafetySafe
	}
	return SafetyUnsafe
}

func (p *planner) rules(fullMethod string, said method.Description) (*rules, error) {
	if r, ok := p.policies.Lookup(fullMethod); ok {
		return r, nil
	}
	if said.Policy.GetRetry() == nil {
		return p.fallback, nil
	}
	policy, errs := fromProto(said.Policy.GetRetry())
	if len(errs) > 0 {
		return nil, fmt.Errorf("retrysafe.v1.policy of %s: %w", fullMethod, errors.Join(errs...))
	}
	return policy.rules(), nil
}

var protoFields = fields{
	attempts: "retry.max_attempts", base: "retry.base", cap: "retry.cap", multiplier: "retry.multiplier",
	jitter: "retry.jitter", perAttempt: "retry.per_attempt_timeout", elapsed: "retry.max_elapsed",
}

// fromProto returns the policy that a .proto states. A base that is present
// and zero means no wait.
func fromProto(said *retrysafev1.RetryPolicy) (Policy, []error) {
	p := Policy{
		MaxAttempts: int(min(said.GetMaxAttempts(), math.MaxInt32)),
		Backoff: Backoff{
			Base:       said.GetBase().AsDuration(),
			Cap:        said.GetCap().AsDuration(),
			Multiplier: said.GetMultiplier(),
			Jitter:     jitterFromProto(said.GetJitter()),
		},
		PerAttemptTimeout: said.GetPerAttemptTimeout().AsDuration(),
		MaxElapsed:        said.GetMaxElapsed().AsDuration(),
	}
	immediate := isZero(said.GetBase())
	if immediate {
		p.Backoff.Base = 1 // no cap is below that; 0 would mean the default
	}
	if errs := p.validate(protoFields); len(errs) > 0 {
		return Policy{}, errs
	}
	if immediate {
		p.Backoff = Backoff{Immediate: true}
	}
	return p, nil
}

func isZero(d *durationpb.Duration) bool { return d != nil && d.AsDuration() == 0 }

func jitterFromProto(j retrysafev1.Jitter) Jitter {
	switch j {
	case retrysafev1.Jitter_JITTER_UNSPECIFIED, retrysafev1.Jitter_JITTER_FULL:
		return JitterFull
	case retrysafev1.Jitter_JITTER_EQUAL:
		return JitterEqual
	case retrysafev1.Jitter_JITTER_DECORRELATED:
		return JitterDecorrelated
	case retrysafev1.Jitter_JITTER_NONE:
		return JitterNone
	}
	return Jitter(min(uint32(j), math.MaxUint8)) // unknown, and refused as such
}

// oneAttempt is the policy of methods that a service config does not retry.
var oneAttempt = Policy{MaxAttempts: 1}
