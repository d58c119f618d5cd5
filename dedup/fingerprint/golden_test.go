package fingerprint

import (
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

func parseText(t testing.TB, md protoreflect.MessageDescriptor, text string) *dynamicpb.Message {
	t.Helper()
	m := dynamicpb.NewMessage(md)
	if err := prototext.Unmarshal([]byte(text), m); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestFingerprintsAreTheOnesOnRecord: stored records hold them, so that a
// change here needs a new version.
func TestFingerprintsAreTheOnesOnRecord(t *testing.T) {
	md := build(t, parseFile(t, orders), "Order")
	var b strings.Builder
	for _, text := range []string{
		``,
		`id: "order-42" amount: 1250`,
		`id: "order-42" amount: 1250 sent_at: "12:00"`,
		`labels { key: "b" value: "2" } labels { key: "a" value: "1" } labels { key: "" value: "" }`,
		`lines { key: -1 value { sku: "x" attrs { key: true value: 1 } attrs { key: false value: 2 } } } lines { key: 300 value {} }`,
		`card: "4242" rate: 1.5 parent { spots { x: 1 y: -1 } last: 7 }`,
		`points { x: 2 y: 1 } points { x: 1 y: 2 }`,
		`points { x: 2 y: 1 } points { x: 2 y: 2 }`,
		`pairs { first { sku: "b" note: "n" } second: "1" } pairs { first { sku: "a" } second: "2" }`,
		`tags: "b" tags: "a" packed: [3, -2, 1] blob: "\000\377"`,
	} {
		m := parseText(t, md, text)
		f := fingerprintOf(t, m)
		fmt.Fprintf(&b, "%s\n\tform %x\n\tv%d %s\n", text, canonicalOf(t, m), f.Version, hex.EncodeToString(f.Sum[:]))
	}
	want, err := os.ReadFile("testdata/fingerprints.golden")
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("fingerprints have changed:\n%s\nwant\n%s", b.String(), want)
	}
}
