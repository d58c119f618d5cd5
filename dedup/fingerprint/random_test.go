package fingerprint

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	retrysafev1 "github.com/retrysafe/retrysafe/gen/retrysafe/v1"
)

// random makes messages from a seed.
type random struct{ *rand.Rand }

func newRandom(seed uint64) random { return random{rand.New(rand.NewPCG(seed, 1))} }

func (r random) message(md protoreflect.MessageDescriptor, depth int) *dynamicpb.Message {
	m := dynamicpb.NewMessage(md)
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		if fd.Message() != nil && depth == 0 || r.IntN(3) == 0 {
			continue
		}
		switch {
		case fd.IsMap():
			entries := m.Mutable(fd).Map()
			for range r.IntN(4) {
				entries.Set(r.value(fd.MapKey(), depth).MapKey(), r.value(fd.MapValue(), depth))
			}
		case fd.IsList():
			list := m.Mutable(fd).List()
			for range r.IntN(4) {
				list.Append(r.value(fd, depth))
			}
		default:
			m.Set(fd, r.value(fd, depth))
		}
	}
	return m
}

func (r random) value(fd protoreflect.FieldDescriptor, depth int) protoreflect.Value {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(r.IntN(2) == 0)
	case protoreflect.Int32Kind, protoreflect.Sint32Kind:
		return protoreflect.ValueOfInt32(int32(r.IntN(100) - 50))
	case protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(r.Uint32N(1000))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind:
		return protoreflect.ValueOfInt64(r.Int64N(1000) - 500)
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(r.Uint64N(1000))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(r.Float64())
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(fmt.Sprint("s", r.IntN(2000)))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(fmt.Sprint("b", r.IntN(2000))))
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return protoreflect.ValueOfMessage(r.message(fd.Message(), depth-1))
	}
	panic(fd.Kind())
}

// rewrite returns the message b written as another sender would: the entries
// of known maps in another order, and the fields too where fields is true.
func (r random) rewrite(t testing.TB, b []byte, md protoreflect.MessageDescriptor, fields bool) []byte {
	t.Helper()
	rs, err := records(b)
	if err != nil {
		t.Fatal(err)
	}
	byNumber := make(map[protowire.Number][]record)
	for _, rec := range rs {
		if known := encodesMessage(rec, md); known != nil {
			rec = rec.with(r.rewrite(t, rec.content, known, fields))
		}
		byNumber[rec.num] = append(byNumber[rec.num], rec)
	}
	for num, run := range byNumber {
		if fd := md.Fields().ByNumber(num); fd != nil && fd.IsMap() {
			r.Shuffle(len(run), func(i, j int) { run[i], run[j] = run[j], run[i] })
		}
	}
	var numbers []protowire.Number
	for num := range byNumber {
		numbers = append(numbers, num)
	}
	slices.Sort(numbers)
	if fields {
		r.Shuffle(len(numbers), func(i, j int) { numbers[i], numbers[j] = numbers[j], numbers[i] })
	}
	var out []record
	for _, num := range numbers {
		out = append(out, byNumber[num]...)
	}
	return join(out)
}

// change changes one value in m, at any depth, and says where. It returns ""
// where it found none to change. Ignored fields it leaves alone.
func (r random) change(m protoreflect.Message) string {
	var fields []protoreflect.FieldDescriptor
	m.Range(func(fd protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		o, _ := fd.Options().(*descriptorpb.FieldOptions)
		if !proto.GetExtension(o, retrysafev1.E_FingerprintIgnore).(bool) {
			fields = append(fields, fd)
		}
		return true
	})
	if len(fields) == 0 {
		return ""
	}
	slices.SortFunc(fields, func(a, b protoreflect.FieldDescriptor) int { return int(a.Number()) - int(b.Number()) })
	fd := fields[r.IntN(len(fields))]
	name := string(fd.Name())
	switch {
	case r.IntN(4) == 0:
		m.Clear(fd)
		return name + " cleared"
	case fd.IsMap():
		return name + r.changeMap(fd, m.Mutable(fd).Map())
	case fd.IsList():
		return name + r.changeList(fd, m.Mutable(fd).List())
	case fd.Message() != nil:
		if in := r.change(m.Mutable(fd).Message()); in != "" {
			return name + "." + in
		}
		m.Clear(fd)
		return name + " cleared"
	}
	m.Set(fd, other(fd, m.Get(fd)))
	return name
}

func (r random) changeMap(fd protoreflect.FieldDescriptor, entries protoreflect.Map) string {
	var keys []protoreflect.MapKey
	entries.Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, k)
		return true
	})
	slices.SortFunc(keys, func(a, b protoreflect.MapKey) int {
		if a.String() < b.String() {
			return -1
		}
		return 1
	})
	k := keys[r.IntN(len(keys))]
	if fd.MapValue().Message() != nil || r.IntN(2) == 0 {
		entries.Clear(k)
		return ": an entry deleted"
	}
	entries.Set(k, other(fd.MapValue(), entries.Get(k)))
	return ": a value"
}

func (r random) changeList(fd protoreflect.FieldDescriptor, list protoreflect.List) string {
	i := r.IntN(list.Len())
	if fd.Message() == nil && r.IntN(2) == 0 {
		list.Set(i, other(fd, list.Get(i)))
		return ": an element"
	}
	if fd.Message() != nil {
		if in := r.change(list.Get(i).Message()); in != "" {
			return ": " + in
		}
	}
	list.Append(list.NewElement())
	return ": an element more"
}

// other returns a value that is not v, and not the default either.
func other(fd protoreflect.FieldDescriptor, v protoreflect.Value) protoreflect.Value {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(!v.Bool())
	case protoreflect.Int32Kind, protoreflect.Sint32Kind:
		return protoreflect.ValueOfInt32(int32(v.Int()) + 1000)
	case protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(v.Uint()) + 1)
	case protoreflect.Int64Kind, protoreflect.Sint64Kind:
		return protoreflect.ValueOfInt64(v.Int() + 1000)
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(v.Uint() + 1)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(v.Float() + 1)
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(v.String() + "x")
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(append(slices.Clone(v.Bytes()), 'x'))
	}
	panic(fd.Kind())
}

func marshalled(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{AllowPartial: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func parsed(t testing.TB, b []byte, md protoreflect.MessageDescriptor) *dynamicpb.Message {
	t.Helper()
	m := dynamicpb.NewMessage(md)
	if err := (proto.UnmarshalOptions{AllowPartial: true}).Unmarshal(b, m); err != nil {
		t.Fatal(err)
	}
	return m
}
