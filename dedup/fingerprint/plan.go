package fingerprint

import (
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	retrysafev1 "github.com/retrysafe/retrysafe/gen/retrysafe/v1"
)

// plan is what a descriptor says of the fields of a message, so far as the
// canonical form depends on it. It never changes.
type plan struct {
	dense      []field // by number
	isDense    bool    // there is nothing to be said of other numbers
	sparse     map[protowire.Number]field
	extendable protoreflect.MessageDescriptor // nil where there are no extensions
	// closed says that neither the message nor any within it has extensions.
	closed bool
}

// field is what is known of one. The zero field stands for one that is
// kept as it is.
type field struct {
	message *plan // of its content, nil where it is no message
	group   bool  // the message is encoded as a group
	ignored bool
}

// maxDense is the highest number that has a place in plan.dense.
const maxDense = 63

// field returns what p says of a field.
func (p *plan) field(n protowire.Number) field {
	if int(n) < len(p.dense) {
		return p.dense[n]
	}
	return p.rare(n)
}

// rare is [plan.field] for a number that is not in dense.
func (p *plan) rare(n protowire.Number) field {
	if f, ok := p.sparse[n]; ok || p.extendable == nil {
		return f
	}
	return extension(p.extendable, n)
}

func extension(md protoreflect.MessageDescriptor, n protowire.Number) field {
	if !md.ExtensionRanges().Has(n) {
		return field{}
	}
	xt, err := protoregistry.GlobalTypes.FindExtensionByNumber(md.FullName(), n)
	if err != nil {
		return field{}
	}
	fd := xt.TypeDescriptor()
	f := field{ignored: isIgnored(fd), group: fd.Kind() == protoreflect.GroupKind}
	if fd.Message() != nil {
		f.message = planOf(fd.Message())
	}
	return f
}

// The plans made so far: facts about descriptors, which never change, so that
// it does not matter to anyone who made them. Descriptors that a program makes
// while it runs could be any number, so the cache stops growing at maxPlans.
var (
	plans     sync.Map // protoreflect.MessageDescriptor to *plan
	planCount atomic.Int64
)

const maxPlans = 1 << 14

func planOf(md protoreflect.MessageDescriptor) *plan {
	if p, ok := plans.Load(md); ok {
		return p.(*plan)
	}
	made := make(planner)
	p := made.plan(md)
	made.close()
	if planCount.Load()+int64(len(made)) > maxPlans {
		return p
	}
	for md, p := range made {
		if _, loaded := plans.LoadOrStore(md, p); !loaded {
			planCount.Add(1)
		}
	}
	return p
}

// planner makes the plans of a message and of all that it contains, which may
// be itself.
type planner map[protoreflect.MessageDescriptor]*plan

func (made planner) plan(md protoreflect.MessageDescriptor) *plan {
	if p, ok := made[md]; ok {
		return p
	}
	p := new(plan)
	made[md] = p
	if md.ExtensionRanges().Len() > 0 {
		p.extendable = md
	}
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		f := field{ignored: isIgnored(fd), group: fd.Kind() == protoreflect.GroupKind}
		if fd.Message() != nil {
			f.message = made.plan(fd.Message())
		}
		p.set(fd.Number(), f)
	}
	p.isDense = p.sparse == nil && p.extendable == nil
	return p
}

// close sets plan.closed, for all plans made together alike.
func (made planner) close() {
	for _, p := range made {
		if p.extendable != nil {
			return
		}
	}
	for _, p := range made {
		p.closed = true
	}
}

func (p *plan) set(n protowire.Number, f field) {
	if f == (field{}) {
		return
	}
	if n > maxDense {
		if p.sparse == nil {
			p.sparse = make(map[protowire.Number]field)
		}
		p.sparse[n] = f
		return
	}
	for len(p.dense) <= int(n) {
		p.dense = append(p.dense, field{})
	}
	p.dense[n] = f
}

// isIgnored reads the option from the options' bytes: descriptors that were
// made at run time may hold it under another extension type, or unknown.
func isIgnored(fd protoreflect.FieldDescriptor) bool {
	b, err := proto.Marshal(fd.Options())
	if err != nil || len(b) == 0 {
		return false
	}
	var options descriptorpb.FieldOptions
	if proto.Unmarshal(b, &options) != nil {
		return false
	}
	ignored, _ := proto.GetExtension(&options, retrysafev1.E_FingerprintIgnore).(bool)
	return ignored
}
