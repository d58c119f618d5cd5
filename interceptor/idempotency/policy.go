package idempotency

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/retrysafe/retrysafe/dedup"
	retrysafev1 "github.com/retrysafe/retrysafe/gen/retrysafe/v1"
	"github.com/retrysafe/retrysafe/interceptor/internal/method"
)

// policy is what holds for one method.
type policy struct {
	requirement  Requirement // 0 is KeyNone
	retention    time.Duration
	maxExecution time.Duration
	onUnknown    dedup.UnknownPolicy
	keyField     protoreflect.Name     // "": the key travels in metadata alone
	response     protoreflect.FullName // "": the registry does not have the method
}

// keyed says whether calls of the method may carry a key.
func (p *policy) keyed() bool { return p.requirement >= KeyOptional }

// policies resolves each method once, on its first call, where the registry has
// it. Others are resolved at each call: a client that passes on what others call
// may call any number of them.
type policies struct {
	keys     *method.Table[Requirement]
	resolved sync.Map // full method to *policy
}

// newPolicies reports every mistake in what code and the linked .proto files
// say, so that a program with a wrong policy fails when it starts.
func newPolicies(keys *keyTable) (*policies, error) {
	err := errors.Join(append(keys.errs, checkRegistry())...)
	return &policies{keys: &keys.Table}, err
}

func checkRegistry() error {
	var errs []error
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				if _, err := describe(fullMethod(methods.Get(j))); err != nil {
					errs = append(errs, err)
				}
			}
		}
		return true
	})
	return errors.Join(errs...)
}

func fullMethod(m protoreflect.MethodDescriptor) string {
	return "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
}

func (ps *policies) of(fullMethod string) (*policy, error) {
	if p, ok := ps.resolved.Load(fullMethod); ok {
		return p.(*policy), nil
	}
	p, err := describe(fullMethod)
	if err != nil {
		return nil, err
	}
	if r, ok := ps.keys.Lookup(fullMethod); ok {
		p.requirement = r
	}
	if p.response == "" {
		return p, nil
	}
	kept, _ := ps.resolved.LoadOrStore(fullMethod, p)
	return kept.(*policy), nil
}

// describe returns what the .proto says of a method.
func describe(fullMethod string) (*policy, error) {
	d, ok := method.Describe(fullMethod)
	if !ok {
		return new(policy), nil
	}
	p, err := policyOf(d.Policy, d.Method)
	if err != nil {
		return nil, fmt.Errorf("idempotency: policy of %s: %w", fullMethod, err)
	}
	return p, nil
}

func policyOf(said *retrysafev1.MethodPolicy, m protoreflect.MethodDescriptor) (*policy, error) {
	p := &policy{response: m.Output().FullName(), keyField: protoreflect.Name(said.GetKeyField())}
	var errs [6]error
	p.requirement, errs[0] = requirementOf(said.GetKey())
	p.onUnknown, errs[1] = unknownPolicyOf(said.GetOnUnknownOutcome())
	p.retention, errs[2] = durationOf("retention", said.GetRetention(), minRetention)
	p.maxExecution, errs[3] = durationOf("max_execution", said.GetMaxExecution(), 1)
	errs[4] = checkKeyField(p.keyField, m.Input())
	if p.keyed() && streams(m) {
		errs[5] = fmt.Errorf("key: %w", errStreams)
	}
	return p, errors.Join(errs[:]...)
}

func requirementOf(k retrysafev1.MethodPolicy_Key) (Requirement, error) {
	switch k {
	case retrysafev1.MethodPolicy_KEY_UNSPECIFIED, retrysafev1.MethodPolicy_KEY_NONE:
		return KeyNone, nil
	case retrysafev1.MethodPolicy_KEY_OPTIONAL:
		return KeyOptional, nil
	case retrysafev1.MethodPolicy_KEY_REQUIRED:
		return KeyRequired, nil
	}
	return 0, fmt.Errorf("key: %v is not known", k)
}

func unknownPolicyOf(u retrysafev1.MethodPolicy_UnknownOutcome) (dedup.UnknownPolicy, error) {
	switch u {
	case retrysafev1.MethodPolicy_UNKNOWN_OUTCOME_UNSPECIFIED, retrysafev1.MethodPolicy_UNKNOWN_OUTCOME_REEXECUTE:
		return dedup.Reexecute, nil
	case retrysafev1.MethodPolicy_UNKNOWN_OUTCOME_REJECT:
		return dedup.Reject, nil
	}
	return 0, fmt.Errorf("on_unknown_outcome: %v is not known", u)
}

// minRetention is the shortest that stores keep.
const minRetention = time.Millisecond

func durationOf(field string, d *durationpb.Duration, least time.Duration) (time.Duration, error) {
	if d == nil {
		return 0, nil
	}
	if err := d.CheckValid(); err != nil {
		return 0, fmt.Errorf("%s: %w", field, err)
	}
	if d.AsDuration() <= 0 {
		return 0, fmt.Errorf("%s: %v is not positive", field, d.AsDuration())
	}
	if d.AsDuration() < least {
		return 0, fmt.Errorf("%s: %v is less than %v", field, d.AsDuration(), least)
	}
	return d.AsDuration(), nil
}

var errStreams = errors.New("the method streams, and streams are not deduplicated")

func streams(m protoreflect.MethodDescriptor) bool {
	return m.IsStreamingClient() || m.IsStreamingServer()
}

func checkKeyField(name protoreflect.Name, request protoreflect.MessageDescriptor) error {
	if name == "" {
		return nil
	}
	fd := request.Fields().ByName(name)
	if fd == nil {
		return fmt.Errorf("key_field: %s has no field %q", request.FullName(), name)
	}
	if fd.Kind() != protoreflect.StringKind || fd.IsList() {
		return fmt.Errorf("key_field: %s is not a string", fd.FullName())
	}
	return nil
}
