package fingerprint

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrysafe/retrysafe/dedup"
	retrysafev1 "github.com/retrysafe/retrysafe/gen/retrysafe/v1"
)

// rounds is how many random messages each property is tried on.
const rounds = 500

func fingerprintOf(t testing.TB, m proto.Message) dedup.Fingerprint {
	t.Helper()
	f, err := Message(m)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestMessageFollowsTheWrittenRules(t *testing.T) {
	for _, tt := range []struct{ file, message string }{{orders, "Order"}, {legacy, "Node"}} {
		md := build(t, parseFile(t, tt.file), protoreflect.Name(tt.message))
		for seed := range uint64(rounds) {
			m := newRandom(seed).message(md, 3)
			form, err := reference(marshalled(t, m), md)
			if err != nil {
				t.Fatal(err)
			}
			got := fingerprintOf(t, m)
			if got.Version != dedup.FingerprintProto || got.Sum != sha256.Sum256(append([]byte(domain), form...)) {
				t.Fatalf("%s, seed %d: not the fingerprint of the reference form", tt.message, seed)
			}
		}
	}
}

func TestOrderOnTheWireDoesNotCount(t *testing.T) {
	for _, tt := range []struct{ file, message string }{{orders, "Order"}, {legacy, "Node"}} {
		md := build(t, parseFile(t, tt.file), protoreflect.Name(tt.message))
		for seed := range uint64(rounds) {
			r := newRandom(seed)
			m := r.message(md, 3)
			again := parsed(t, r.rewrite(t, marshalled(t, m), md, true), md)
			if fingerprintOf(t, m) != fingerprintOf(t, again) {
				t.Fatalf("%s, seed %d: another order on the wire, another fingerprint", tt.message, seed)
			}
		}
	}
}

// TestABinaryThatKnowsFewerFieldsAgrees leaves out random fields of Order, as a
// replica of the version before would. Fields whose messages hold maps or
// ignored fields are the stated limit.
func TestABinaryThatKnowsFewerFieldsAgrees(t *testing.T) {
	file := parseFile(t, orders)
	md := build(t, file, "Order")
	keep := map[string]bool{"lines": true, "line": true, "more": true, "parent": true, "pairs": true, "sent_at": true}
	for seed := range uint64(rounds) {
		r := newRandom(seed)
		older := build(t, without(file, "Order", func(f *descriptorpb.FieldDescriptorProto) bool {
			return !keep[f.GetName()] && r.IntN(2) == 0
		}), "Order")
		sent := r.rewrite(t, marshalled(t, r.message(md, 2)), md, false)
		want := fingerprintOf(t, parsed(t, sent, md))
		if fingerprintOf(t, parsed(t, sent, older)) != want {
			t.Fatalf("seed %d: a binary that knows %d of %d fields disagrees", seed, older.Fields().Len(), md.Fields().Len())
		}
		retried := r.rewrite(t, sent, md, false) // maps in another order
		if fingerprintOf(t, parsed(t, retried, older)) != want {
			t.Fatalf("seed %d: a binary that knows fewer fields refuses the retry", seed)
		}
	}
}

func TestAnyChangeCounts(t *testing.T) {
	md := build(t, parseFile(t, orders), "Order")
	changed := 0
	for seed := range uint64(rounds) {
		r := newRandom(seed)
		m := r.message(md, 3)
		before := fingerprintOf(t, m)
		again := proto.Clone(m)
		where := r.change(again.ProtoReflect())
		if where == "" || bytes.Equal(canonicalOf(t, m), canonicalOf(t, again)) {
			continue // such as a sent_at alone, or an empty list cleared
		}
		changed++
		if fingerprintOf(t, again) == before {
			t.Fatalf("seed %d: %s changed, the same fingerprint", seed, where)
		}
	}
	if changed < rounds*9/10 {
		t.Errorf("only %d of %d messages were changed", changed, rounds)
	}
}

func canonicalOf(t *testing.T, m proto.Message) []byte {
	t.Helper()
	form, err := reference(marshalled(t, m), m.ProtoReflect().Descriptor())
	if err != nil {
		t.Fatal(err)
	}
	return form
}

func TestIgnoredFieldsAreLeftOutAtAnyDepth(t *testing.T) {
	md := build(t, parseFile(t, orders), "Order")
	order := func(text string) *dynamicpb.Message { return parseText(t, md, text) }
	a := order(`id: "1" sent_at: "now" line { sku: "a" note: "x" } lines { key: 7 value { note: "x" } } parent { sent_at: "x" }`)
	b := order(`id: "1" sent_at: "later" line { sku: "a" } lines { key: 7 value { note: "y" } } parent {}`)
	if fingerprintOf(t, a) != fingerprintOf(t, b) {
		t.Error("an ignored field counts")
	}
	if fingerprintOf(t, b) == fingerprintOf(t, order(`id: "1" line { sku: "a" } lines { key: 7 value {} }`)) {
		t.Error("a message of nothing but ignored fields counts as absent")
	}
}

// TestTheOptionIsReadFromAnyDescriptor has the option as an unknown field of
// the options, as descriptors have that were parsed without it.
func TestTheOptionIsReadFromAnyDescriptor(t *testing.T) {
	file := parseFile(t, orders)
	for _, f := range file.MessageType[0].Field {
		if f.GetName() == "sent_at" {
			f.Options = new(descriptorpb.FieldOptions)
			raw := protowire.AppendTag(nil, retrysafev1.E_FingerprintIgnore.TypeDescriptor().Number(), protowire.VarintType)
			f.Options.ProtoReflect().SetUnknown(protowire.AppendVarint(raw, 1))
		}
	}
	md := build(t, file, "Order")
	a, b := parseText(t, md, `id: "1" sent_at: "now"`), parseText(t, md, `id: "1"`)
	if fingerprintOf(t, a) != fingerprintOf(t, b) {
		t.Error("an ignored field counts")
	}
}

func TestWhatCountsAsAMap(t *testing.T) {
	md := build(t, parseFile(t, orders), "Order")
	for _, tt := range []struct {
		name, a, b string
		same       bool
	}{
		{"a map has no order", `labels { key: "a" value: "1" } labels { key: "b" value: "2" }`, `labels { key: "b" value: "2" } labels { key: "a" value: "1" }`, true},
		{"pairs with distinct firsts have none", `points { x: 1 y: 2 } points { x: 2 y: 1 }`, `points { x: 2 y: 1 } points { x: 1 y: 2 }`, true},
		{"strings that look like pairs have none", `tags: "\n\001a\022\001b" tags: "\n\001b\022\001c"`, `tags: "\n\001b\022\001c" tags: "\n\001a\022\001b"`, true},
		{"pairs that share a first have one", `points { x: 1 y: 2 } points { x: 1 y: 3 }`, `points { x: 1 y: 3 } points { x: 1 y: 2 }`, false},
		{"a list of which one is no pair has one", `points { x: 1 y: 2 } points { x: 2 }`, `points { x: 2 } points { x: 1 y: 2 }`, false},
		{"a list with a third member has one", `points { x: 1 y: 2 name: "n" } points { x: 2 y: 1 }`, `points { x: 2 y: 1 } points { x: 1 y: 2 name: "n" }`, false},
		{"strings have one", `tags: "a" tags: "b"`, `tags: "b" tags: "a"`, false},
		{"numbers have one", `packed: [1, 2]`, `packed: [2, 1]`, false},
		{"a pair is not its swap", `labels { key: "a" value: "b" }`, `labels { key: "b" value: "a" }`, false},
		{"values do not change keys", `labels { key: "a" value: "1" } labels { key: "b" value: "2" }`, `labels { key: "a" value: "2" } labels { key: "b" value: "1" }`, false},
		{"ignored fields do not keep a pair from being one", `more { sku: "a" count: 1 note: "n" } more { sku: "b" count: 1 }`, `more { sku: "b" count: 1 note: "m" } more { sku: "a" count: 1 }`, true},
		{"pairs of messages have none", `pairs { first { sku: "a" } second: "1" } pairs { first { sku: "b" } second: "2" }`, `pairs { first { sku: "b" } second: "2" } pairs { first { sku: "a" } second: "1" }`, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b := fingerprintOf(t, parseText(t, md, tt.a)), fingerprintOf(t, parseText(t, md, tt.b))
			if (a == b) != tt.same {
				t.Errorf("the same fingerprint: %t, want %t", a == b, tt.same)
			}
		})
	}
}

func TestExtensionsAreKnownWhereTheyAreLinkedIn(t *testing.T) {
	policy := func(wait int64) *descriptorpb.MethodOptions {
		o := new(descriptorpb.MethodOptions)
		proto.SetExtension(o, retrysafev1.E_Policy, &retrysafev1.MethodPolicy{Retry: &retrysafev1.RetryPolicy{MaxAttempts: uint32(wait)}})
		return o
	}
	b := marshalled(t, policy(3))
	// The same extension with its fields out of order: known, so sorted.
	var in []byte
	in = protowire.AppendTag(in, 6, protowire.BytesType)
	in = protowire.AppendBytes(in, []byte{8, 3})
	in = protowire.AppendTag(in, 1, protowire.VarintType)
	in = protowire.AppendVarint(in, 2)
	raw := protowire.AppendBytes(protowire.AppendTag(nil, 51780, protowire.BytesType), in)
	var c canonizer
	got, err := c.appendCanonical(nil, raw, planOf(policy(3).ProtoReflect().Descriptor()))
	if err != nil {
		t.Fatal(err)
	}
	want := protowire.AppendBytes(protowire.AppendTag(nil, 51780, protowire.BytesType), []byte{8, 2, 50, 2, 8, 3})
	if !bytes.Equal(got, want) {
		t.Errorf("canonical form %x, want %x", got, want)
	}
	if fingerprintOf(t, policy(3)) == fingerprintOf(t, policy(4)) || len(b) == 0 {
		t.Error("an extension's value does not count")
	}
}

func TestTheValueOfAnAnyIsRaw(t *testing.T) {
	md := build(t, parseFile(t, orders), "Order")
	in := marshalled(t, parseText(t, md, `id: "1" sent_at: "now"`))
	a := &anypb.Any{TypeUrl: "type.googleapis.com/test.Order", Value: in}
	b := &anypb.Any{TypeUrl: a.TypeUrl, Value: marshalled(t, parseText(t, md, `id: "1"`))}
	if fingerprintOf(t, a) == fingerprintOf(t, b) {
		t.Error("a field was ignored within an Any")
	}
}

func TestWhatCannotBeSerializedIsAnError(t *testing.T) {
	if _, err := Message(nil); err == nil {
		t.Error("Message(nil) succeeded")
	}
	_, err := Message(wrapperspb.String("secret\xff"))
	if err == nil {
		t.Fatal("a string that is not UTF-8 has a fingerprint")
	}
	if strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "google.protobuf.StringValue") {
		t.Errorf("%v should name the type and hold nothing of the message", err)
	}
}

func TestANilMessageIsTheEmptyOne(t *testing.T) {
	if fingerprintOf(t, (*wrapperspb.StringValue)(nil)) != fingerprintOf(t, new(wrapperspb.StringValue)) {
		t.Error("a nil pointer has a fingerprint of its own")
	}
}

func TestRequiredFieldsMayBeMissing(t *testing.T) {
	md := build(t, parseFile(t, legacy), "Node")
	fingerprintOf(t, dynamicpb.NewMessage(md))
}

func TestMalformedBytesAreNoForm(t *testing.T) {
	md := build(t, parseFile(t, orders), "Order")
	for _, b := range [][]byte{{0x0a}, {0x0a, 5, 'x'}, {0x32, 1, 0x0a}, {0x07}, {0}, {0x0b}, {0x0c}, {0xff, 0xff}} {
		if isCanonical(b, planOf(md)) {
			t.Errorf("%x is canonical", b)
		}
		var c canonizer
		if _, err := c.appendCanonical(nil, b, planOf(md)); !errors.Is(err, errMalformed) {
			t.Errorf("%x: %v, want errMalformed", b, err)
		}
	}
}

// TestDeepMessagesTakeLinearTime is a tenth of a second's work. Were each level
// copied or compared on its own, it would move 36 GB.
func TestDeepMessagesTakeLinearTime(t *testing.T) {
	const depth = 9000
	value := structpb.NewStringValue(strings.Repeat("x", 4<<20))
	for range depth {
		fields := map[string]*structpb.Value{"b": value, "a": structpb.NewBoolValue(true), "ccc": structpb.NewNullValue()}
		value = structpb.NewStructValue(&structpb.Struct{Fields: fields})
	}
	a := fingerprintOf(t, value)
	if a != fingerprintOf(t, value) {
		t.Error("two fingerprints of one message differ")
	}
}

// TestDeepGroupsTakeLinearTime is a tenth of a second's work. Were each level
// measured before it is read, it would read 9 GB, twice.
func TestDeepGroupsTakeLinearTime(t *testing.T) {
	const depth = 9000
	md := build(t, parseFile(t, legacy), "Node")
	b := bytes.Repeat([]byte{1<<3 | 3}, depth)                  // branch begins
	b = append(b, bytes.Repeat([]byte{15 << 3, 1}, 500_000)...) // an unknown number
	b = append(b, bytes.Repeat([]byte{1<<3 | 4}, depth)...)     // and ends
	var c canonizer
	form, err := c.appendCanonical(nil, b, planOf(md))
	if err != nil || !bytes.Equal(form, b) {
		t.Errorf("%d bytes of %d, %v", len(form), len(b), err)
	}
}

func TestLargeBuffersAreNotKept(t *testing.T) {
	s := &scratch{wire: make([]byte, maxPooled+1), form: make([]byte, maxPooled+1)}
	s.nodes, s.open, s.run = make([]node, maxNodes+1), make([]node, maxNodes+1), make([]node, maxNodes+1)
	s.put()
	if s.wire != nil || s.form != nil || s.nodes != nil || s.open != nil || s.run != nil {
		t.Error("a large buffer went back to the pool")
	}
}

func TestTheCacheStopsGrowing(t *testing.T) {
	before := planCount.Load()
	defer planCount.Store(before)
	planCount.Store(math.MaxInt64 / 2)
	md := build(t, parseFile(t, orders), "Order")
	m := parseText(t, md, `id: "1" sent_at: "now"`)
	if fingerprintOf(t, m) != fingerprintOf(t, parseText(t, md, `id: "1"`)) {
		t.Error("without a cached plan the option is not read")
	}
	if _, ok := plans.Load(md); ok {
		t.Error("a full cache took another plan")
	}
}

func TestMessageMayBeCalledAtOnce(t *testing.T) {
	md := build(t, parseFile(t, orders), "Order")
	m := newRandom(1).message(md, 3)
	want := fingerprintOf(t, m)
	var wg sync.WaitGroup
	for range 8 {
		fresh := build(t, parseFile(t, orders), "Order")
		wg.Go(func() {
			for range 50 {
				if got, err := Message(m); err != nil || got != want {
					t.Errorf("Message = %v, %v, want %v", got, err, want)
				}
				if _, err := Message(newRandom(2).message(fresh, 3)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
