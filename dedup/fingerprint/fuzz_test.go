package fingerprint

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/structpb"

	retrysafev1 "github.com/retrysafe/retrysafe/gen/retrysafe/v1"
)

// FuzzCanonical holds the tree against the reference on any bytes.
func FuzzCanonical(f *testing.F) {
	mds := []protoreflect.MessageDescriptor{build(f, parseFile(f, orders), "Order"), build(f, parseFile(f, legacy), "Node")}
	for i, md := range mds {
		for seed := range uint64(20) {
			r := newRandom(seed)
			f.Add(r.rewrite(f, marshalled(f, r.message(md, 3)), md, true), i == 1)
		}
	}
	f.Add([]byte{0x32, 1, 0x0a}, false)                          // a message that ends too early
	f.Add([]byte{0xb2, 0, 0x80, 0}, false)                       // varints longer than they must be
	f.Add([]byte{0x0b, 0x1b, 0x1c, 0x0c}, true)                  // groups
	f.Add([]byte{0x22, 2, 0x10, 1, 0x22, 2, 0x10, 1, 0}, false)  // an illegal number
	f.Add([]byte{0x22, 4, 8, 1, 16, 1, 0x22, 2, 8, 1}, false)    // of two entries one has no value
	f.Add([]byte{0x22, 4, 8, 1, 16, 1, 0x20, 1, 0x22, 0}, false) // of three one is no entry
	f.Fuzz(func(t *testing.T, b []byte, old bool) {
		md := mds[0]
		if old {
			md = mds[1]
		}
		p := planOf(md)
		want, wantErr := reference(b, md)
		var c canonizer
		got, err := c.appendCanonical(nil, b, p)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("appendCanonical: %v, the reference: %v", err, wantErr)
		}
		if err != nil {
			if isCanonical(b, p) {
				t.Fatal("malformed bytes are canonical")
			}
			return
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("appendCanonical\n%x, the reference\n%x", got, want)
		}
		if isCanonical(b, p) && !bytes.Equal(b, want) {
			t.Fatal("isCanonical is wrong")
		}
		if again, err := c.appendCanonical(nil, got, p); err != nil || !bytes.Equal(again, got) {
			t.Fatalf("the canonical form has another one: %x, %v", again, err)
		}
	})
}

// FuzzMessage parses any bytes as generated messages: whatever came in has one
// fingerprint, however often it is copied or sent on.
func FuzzMessage(f *testing.F) {
	tree, err := structpb.NewStruct(map[string]any{"a": 1, "b": []any{"x", map[string]any{"c": nil, "d": true}}})
	if err != nil {
		f.Fatal(err)
	}
	options := new(descriptorpb.MethodOptions)
	proto.SetExtension(options, retrysafev1.E_Policy, policy())
	f.Add(marshalled(f, tree), false)
	f.Add(marshalled(f, options), true)
	f.Add([]byte{0x9a, 0x06, 0, 0x0a, 2, 0x0a, 0}, false)                                 // an unknown field before a known one
	f.Add([]byte{0x0a, 4, 0x0a, 0, 0x12, 0, 0x0a, 5, 0x0a, 1, '1', 0x12, 0, 8, 2}, false) // a map, and a varint of its number
	f.Fuzz(func(t *testing.T, b []byte, extended bool) {
		var m, again proto.Message = new(structpb.Struct), new(structpb.Struct)
		if extended {
			m, again = new(descriptorpb.MethodOptions), new(descriptorpb.MethodOptions)
		}
		if proto.Unmarshal(b, m) != nil {
			return
		}
		want := fingerprintOf(t, m)
		if fingerprintOf(t, proto.Clone(m)) != want {
			t.Error("a copy has another fingerprint")
		}
		if err := proto.Unmarshal(marshalled(t, m), again); err != nil {
			t.Fatal(err)
		}
		if fingerprintOf(t, again) != want {
			t.Error("sent on, the message has another fingerprint")
		}
	})
}
