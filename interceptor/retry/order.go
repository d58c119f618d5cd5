package retry

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrysafe/retrysafe/interceptor/internal/key"
	"github.com/retrysafe/retrysafe/interceptor/internal/wire"
)

// order says how one call is made.
type order struct {
	method   string
	static   bool // the method's name may be a label
	safety   Safety
	rules    *rules
	timeout  time.Duration // of the whole call; 0: none
	key      string        // what every attempt carries; "": none
	addKey   bool          // the metadata does not have it yet
	owner    string        // what every attempt names; "": nothing yet
	single   bool          // one attempt
	disabled bool          // one attempt, by Disable
	reason   Reason        // why there is no second one; 0 where disabled
	mine     bool          // the options hold some of ours
}

// order reads the method's plan, the call's options and its context. The error
// is a status, and nothing has been sent.
func (c *client) order(ctx context.Context, method string, req any, opts []grpc.CallOption) (order, error) {
	p, said := c.planner.plan(method), readOptions(opts)
	if p.err != nil {
		return order{}, status.Error(codes.Internal, "retry: "+p.err.Error())
	}
	o := order{method: method, static: p.known || said.static, safety: p.safety, rules: p.rules, timeout: p.timeout, disabled: said.disable, mine: said.mine}
	if said.policy != nil || said.hasSafety {
		if err := o.override(said.callOption); err != nil {
			return order{}, err
		}
	}
	k, inMetadata, hasKey, err := callersKey(ctx, req, p.keyField)
	if err != nil {
		return order{}, wire.Error(wire.ReasonKeyInvalid, err.Error())
	}
	o.key, o.addKey = k, hasKey && !inMetadata

	owner, owned := ownerOf(ctx)
	switch {
	case said.owned:
		o.single, o.reason = true, ReasonOwnedUpstream
	case owned:
		o.single, o.reason, o.owner = true, ReasonOwnedUpstream, owner
		if err := checkOwner(owner); err != nil {
			return order{}, status.Error(codes.InvalidArgument, "retry: Own: "+err.Error())
		}
	case o.safety == SafetyUnsafe:
		o.single, o.reason = true, ReasonNotRetrySafe
	default:
		o.single = o.disabled
		c.equip(&o, hasKey)
	}
	return o, nil
}

// equip gives a Keyed call what it carries from its first attempt on. A Safe
// call's first attempt goes out as it is.
func (c *client) equip(o *order, hasKey bool) {
	if o.safety != SafetyKeyed {
		return
	}
	if !hasKey {
		o.key, o.addKey = key.New(), true
	}
	if !o.disabled {
		o.owner = c.owner
	}
}

// override applies what the call's own options say.
func (o *order) override(said callOption) error {
	if said.policy != nil {
		if err := said.policy.validate(goFields); err != nil {
			return status.Error(codes.InvalidArgument, "retry: CallPolicy: "+err.Error())
		}
		o.rules = said.policy.rules()
	}
	if said.hasSafety {
		if !said.safety.known() {
			return status.Error(codes.InvalidArgument, "retry: CallSafety: "+said.safety.String()+" is unknown")
		}
		o.safety = said.safety
	}
	return nil
}
