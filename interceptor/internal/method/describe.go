package method

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	retrysafev1 "github.com/retrysafe/retrysafe/gen/retrysafe/v1"
)

// Description is what the .proto says of a method.
type Description struct {
	// Method is its descriptor.
	Method protoreflect.MethodDescriptor
	// Policy is its retrysafe.v1.policy option, nil where it has none.
	Policy *retrysafev1.MethodPolicy
	// Safe says that its idempotency_level is NO_SIDE_EFFECTS or IDEMPOTENT.
	Safe bool
}

// Describe returns what the .proto says of "/package.Service/Method", or false
// where this program does not have its descriptor. It looks the method up anew
// each time: callers keep what they get.
func Describe(fullMethod string) (Description, bool) {
	service, name, ok := split(fullMethod)
	if !ok {
		return Description{}, false
	}
	s := findService(service)
	if s == nil {
		return Description{}, false
	}
	m := s.Methods().ByName(protoreflect.Name(name))
	if m == nil {
		return Description{}, false
	}
	return describe(m), true
}

func describe(m protoreflect.MethodDescriptor) Description {
	d := Description{Method: m}
	options, ok := m.Options().(*descriptorpb.MethodOptions)
	if !ok || options == nil {
		return d
	}
	switch options.GetIdempotencyLevel() {
	case descriptorpb.MethodOptions_NO_SIDE_EFFECTS, descriptorpb.MethodOptions_IDEMPOTENT:
		d.Safe = true
	}
	if proto.HasExtension(options, retrysafev1.E_Policy) {
		d.Policy, _ = proto.GetExtension(options, retrysafev1.E_Policy).(*retrysafev1.MethodPolicy)
	}
	return d
}
