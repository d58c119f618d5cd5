package retry

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/retrysafe/retrysafe/interceptor/internal/key"
	"github.com/retrysafe/retrysafe/interceptor/internal/wire"
)

// order says how one call is made.
type order struct {
	method   string
	rules    *rules
	key      string        // what every attempt carries; "": none
	owner    string        // what every attempt names; "": nothing from the first on
	timeout  time.Duration // of the whole call; 0: none
	safety   Safety
	reason   Reason // why there is no second attempt; 0: there may be one
	addKey   bool   // the metadata does not have the key yet
	disabled bool   // one attempt, by Disable
}

// order returns the order of a method's call of which nothing else is said.
func (p *plan) order(method, key string, addKey bool) order {
	return order{method: method, rules: p.rules, safety: p.safety, key: key, addKey: addKey}
}

// wiring is what an attempt is sent with.
type wiring struct {
	req, reply any
	cc         *grpc.ClientConn
	invoker    grpc.UnaryInvoker
}

// custom makes a call of which more is said than its class and a policy. An
// error of its own is a status, and nothing has been sent.
func (c *client) custom(ctx context.Context, p *plan, o *order, said callSettings, w *wiring, opts []grpc.CallOption) error {
	if p.err != nil {
		return wire.NotSent(codes.Internal, "retry: "+p.err.Error())
	}
	if said.mine {
		opts = appendForeign(make([]grpc.CallOption, 0, len(opts)), opts)
	}
	if said.disable {
		opts = append(opts, ownedOption{}) // for the layers below
	}
	o.timeout, o.disabled = p.timeout, said.disable
	if err := o.override(said.callOption); err != nil {
		return err
	}
	switch owner, owned := ownerOf(ctx); {
	case said.owned:
		o.reason = ReasonOwnedUpstream
	case owned:
		o.reason, o.owner = ReasonOwnedUpstream, owner
		if err := checkOwner(owner); err != nil {
			return wire.NotSent(codes.InvalidArgument, "retry: Own: "+err.Error())
		}
	case o.safety == SafetyUnsafe:
		o.reason = ReasonNotRetrySafe
	default:
		c.equip(o)
	}
	if o.disabled || o.reason != 0 {
		if o.safety != SafetyUnsafe && !said.owned {
			o.timeout = shortest(o.timeout, o.rules.perAttemptTimeout, o.rules.maxElapsed)
		}
		return c.once(ctx, o, w, opts)
	}
	x := c.newCall(o, w, opts)
	return x.run(ctx)
}

// shortest returns the smallest of the times that are not zero.
func shortest(all ...time.Duration) time.Duration {
	least := time.Duration(0)
	for _, d := range all {
		if d > 0 && (least == 0 || d < least) {
			least = d
		}
	}
	return least
}

// override applies what the call's own options say.
func (o *order) override(said callOption) error {
	if said.policy != nil {
		if errs := said.policy.validate(goFields); len(errs) > 0 {
			return wire.NotSent(codes.InvalidArgument, "retry: CallPolicy: "+errors.Join(errs...).Error())
		}
		o.rules = said.policy.rules()
	}
	if said.hasSafety {
		if !said.safety.known() {
			return wire.NotSent(codes.InvalidArgument, "retry: CallSafety: "+said.safety.String()+" is unknown")
		}
		o.safety = said.safety
	}
	return nil
}

// equip gives a Keyed call what it carries from its first attempt on. A Safe
// call's first attempt goes out as it is.
func (c *client) equip(o *order) {
	if o.safety != SafetyKeyed {
		return
	}
	if o.key == "" {
		o.key, o.addKey = key.New(), true
	}
	if !o.disabled {
		o.owner = c.owner
	}
}
