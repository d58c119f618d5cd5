package fingerprint

import (
	"bytes"
	"errors"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	retrysafev1 "github.com/retrysafe/retrysafe/gen/retrysafe/v1"
)

// record is one record of a message: its number, and all its bytes.
type record struct {
	num     protowire.Number
	typ     protowire.Type
	content []byte // of a length-delimited one or a group
	whole   []byte
}

func (r record) tag() uint64 { return protowire.EncodeTag(r.num, r.typ) }

func records(b []byte) ([]record, error) {
	var rs []record
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeField(b)
		if n < 0 {
			return nil, errors.New("malformed")
		}
		_, _, tagLen := protowire.ConsumeTag(b)
		r := record{num: num, typ: typ, whole: b[:n]}
		switch typ {
		case protowire.BytesType:
			r.content, _ = protowire.ConsumeBytes(b[tagLen:n])
		case protowire.StartGroupType:
			r.content, _ = protowire.ConsumeGroup(num, b[tagLen:n])
		}
		rs, b = append(rs, r), b[n:]
	}
	return rs, nil
}

func (r record) with(content []byte) record {
	r.content = content
	r.whole = protowire.AppendTag(nil, r.num, r.typ)
	if r.typ == protowire.BytesType {
		r.whole = protowire.AppendBytes(r.whole, content)
		return r
	}
	r.whole = protowire.AppendTag(append(r.whole, content...), r.num, protowire.EndGroupType)
	return r
}

func join(rs []record) []byte {
	var b []byte
	for _, r := range rs {
		b = append(b, r.whole...)
	}
	return b
}

// encodesMessage returns the message that a record is known to hold, or nil.
func encodesMessage(r record, md protoreflect.MessageDescriptor) protoreflect.MessageDescriptor {
	fd := md.Fields().ByNumber(r.num)
	if fd == nil || fd.Message() == nil {
		return nil
	}
	if (fd.Kind() == protoreflect.GroupKind) != (r.typ == protowire.StartGroupType) {
		return nil
	}
	if fd.Kind() == protoreflect.MessageKind && r.typ != protowire.BytesType {
		return nil
	}
	return fd.Message()
}

// reference is the canonical form as the package doc puts it, rule by rule,
// with no thought for speed.
func reference(b []byte, md protoreflect.MessageDescriptor) ([]byte, error) {
	all, err := records(b) // 1
	if err != nil {
		return nil, err
	}
	var rs []record
	for _, r := range all {
		if fd := md.Fields().ByNumber(r.num); fd != nil {
			o, _ := fd.Options().(*descriptorpb.FieldOptions)
			if proto.GetExtension(o, retrysafev1.E_FingerprintIgnore).(bool) { // 2
				continue
			}
		}
		if known := encodesMessage(r, md); known != nil { // 3
			content, err := reference(r.content, known)
			if err != nil {
				return nil, err
			}
			r = r.with(content)
		}
		rs = append(rs, r)
	}
	slices.SortStableFunc(rs, func(a, b record) int { return int(a.tag()) - int(b.tag()) }) // 4
	byTag := make(map[uint64][]record)
	for _, r := range rs {
		byTag[r.tag()] = append(byTag[r.tag()], r)
	}
	var sorted []record
	for i, r := range rs { // 5
		if i == 0 || rs[i-1].tag() != r.tag() {
			sorted = append(sorted, sortedIfMap(byTag[r.tag()])...)
		}
	}
	return join(sorted), nil
}

func sortedIfMap(rs []record) []record {
	keys := make(map[string]record)
	for _, r := range rs {
		if r.typ != protowire.BytesType {
			return rs
		}
		pair, err := records(r.content)
		if err != nil || len(pair) != 2 || pair[0].num != 1 || pair[1].num != 2 {
			return rs
		}
		if _, ok := keys[string(pair[0].whole)]; ok {
			return rs
		}
		keys[string(pair[0].whole)] = r
	}
	var order []string
	for k := range keys {
		order = append(order, k)
	}
	slices.SortFunc(order, func(a, b string) int { return bytes.Compare([]byte(a), []byte(b)) })
	var sorted []record
	for _, k := range order {
		sorted = append(sorted, keys[k])
	}
	return sorted
}
