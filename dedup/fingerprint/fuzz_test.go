package fingerprint

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
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

// FuzzMessage parses any bytes with a binary that knows the fields and one
// that knows none of them: both have an answer, and it does not depend on when
// they are asked.
func FuzzMessage(f *testing.F) {
	file := parseFile(f, orders)
	md := build(f, file, "Order")
	for seed := range uint64(20) {
		f.Add(marshalled(f, newRandom(seed).message(md, 3)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m := dynamicpb.NewMessage(md)
		if proto.Unmarshal(b, m) != nil {
			return
		}
		if fingerprintOf(t, m) != fingerprintOf(t, proto.Clone(m)) {
			t.Error("a copy has another fingerprint")
		}
		if again := parsed(t, marshalled(t, m), md); fingerprintOf(t, m) != fingerprintOf(t, again) {
			t.Error("sent on, the message has another fingerprint")
		}
		m.SetUnknown(protowire.AppendVarint(protowire.AppendTag(m.GetUnknown(), 90, protowire.VarintType), 1))
		fingerprintOf(t, m)
	})
}
