package retry

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/retrysafe/retrysafe/interceptor/internal/method"
)

// client is the state of one client interceptor. It is safe for concurrent
// use, and one interceptor may serve many connections.
type client struct {
	planner     planner
	targets     targets
	owner       string
	failover    []station
	sharedStore bool
	onRetry     func(context.Context, Retry)
	onExhausted func(context.Context, *ExhaustedError)
	telemetry   *telemetry // nil: none
	log         *log       // nil: none
	calls       sync.Pool  // of *call
}

// station is a target of WithFailover.
type station struct {
	conn   grpc.ClientConnInterface
	target *target
}

// newClient returns the state that opts describe, or every mistake in them and
// in the retry policies of the .proto files in this program.
func newClient(opts []Option) (*client, error) {
	var conf config
	conf.apply(opts)
	c := &client{
		owner:       cmp.Or(conf.owner, DefaultOwner),
		sharedStore: conf.sharedStore,
		onRetry:     conf.onRetry,
		onExhausted: conf.onExhausted,
		log:         newLog(conf.logger),
	}
	c.calls.New = func() any { return emptyCall(c) }
	conf.fillPlanner(&c.planner)
	c.targets.budget = conf.readBudget()
	conf.checkFailover()
	conf.refuseServerOptions()
	conf.errs = append(conf.errs, checkRegistry()...)
	c.telemetry = conf.newTelemetry()
	c.planner.observed = c.log != nil || c.telemetry != nil
	if err := conf.failed(); err != nil {
		return nil, err
	}
	for i, conn := range conf.failover {
		c.failover = append(c.failover, station{conn: conn, target: c.targets.ofConn(conn, i)})
	}
	return c, nil
}

// readBudget returns the budget of each target, nil for none.
func (c *config) readBudget() *Budget {
	if c.noBudget {
		return nil
	}
	var b Budget
	if c.budget != nil {
		b = *c.budget
		c.wrongEach(b.validate(goBudgetFields), "WithBudget")
	}
	b = b.withDefaults()
	return &b
}

// fillPlanner sets the tables, first from the service config and then from
// code, so that code wins where both say the same pattern.
func (c *config) fillPlanner(p *planner) {
	p.fallback = Policy{}.rules()
	if c.serviceConfig != nil {
		c.fillFromServiceConfig(p)
	}
	for _, e := range c.policies {
		c.wrongEach(e.value.validate(goFields), "%s: pattern %q", e.option, e.pattern)
		if err := p.policies.Set(e.pattern, e.value.rules()); err != nil {
			c.wrong("%s: %w", e.option, err)
		}
	}
	for _, e := range c.safeties {
		if !e.value.known() {
			c.wrong("%s: pattern %q: %v is unknown", e.option, e.pattern, e.value)
		}
		if err := p.safeties.Set(e.pattern, e.value); err != nil {
			c.wrong("%s: %w", e.option, err)
		}
	}
}

func (c *config) fillFromServiceConfig(p *planner) {
	said, errs := parseServiceConfig(*c.serviceConfig)
	if len(errs) > 0 {
		c.wrongEach(errs, "WithServiceConfig")
		return
	}
	for _, m := range said.methods {
		if err := p.policies.Set(m.pattern, m.rules); err != nil {
			c.wrong("WithServiceConfig: %s: %w", m.path, err)
			continue
		}
		_ = p.timeouts.Set(m.pattern, m.timeout) // the pattern is good: see above
	}
	if said.throttle != nil && c.budget == nil && !c.noBudget {
		c.budget = said.throttle
	}
}

func (c *config) checkFailover() {
	if c.sharedStore && !c.hasFailover {
		c.wrong("WithSharedStore: there is no WithFailover that it could speak of")
	}
	if !c.hasFailover || c.sharedStore {
		return
	}
	for _, e := range c.safeties {
		if e.value == SafetyKeyed {
			c.wrong("WithFailover: %s is Keyed by WithMethodSafety, and WithSharedStore does not say that the targets share a store: at another target the call would execute again", e.pattern)
		}
	}
}

// checkRegistry returns what is wrong with the retry policies of the .proto
// files in this program.
func checkRegistry() []error {
	var errs []error
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			errs = append(errs, checkService(file.Services().Get(i))...)
		}
		return true
	})
	return errs
}

func checkService(s protoreflect.ServiceDescriptor) []error {
	var errs []error
	for i := range s.Methods().Len() {
		name := fmt.Sprintf("/%s/%s", s.FullName(), s.Methods().Get(i).Name())
		said, _ := method.Describe(name)
		if said.Policy.GetRetry() == nil {
			continue
		}
		_, wrong := fromProto(said.Policy.GetRetry())
		for _, err := range wrong {
			errs = append(errs, fmt.Errorf("retrysafe.v1.policy of %s: %w", name, err))
		}
	}
	return errs
}
