package message_test

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrysafe/retrysafe/interceptor/internal/message"
)

// first is a message of protobuf's first API.
type first struct {
	Value string `protobuf:"bytes,1,opt,name=value"`
}

func (m *first) Reset()         { *m = first{} }
func (m *first) String() string { return m.Value }
func (m *first) ProtoMessage()  {}

func TestOf(t *testing.T) {
	m := wrapperspb.String("x")
	if got, ok := message.Of(m); !ok || got != proto.Message(m) {
		t.Errorf("Of a message = %v, %t", got, ok)
	}
	got, ok := message.Of(&first{Value: "x"})
	if !ok {
		t.Fatal("a message of the first API is none")
	}
	wire, err := proto.Marshal(got)
	if want, _ := proto.Marshal(m); err != nil || string(wire) != string(want) {
		t.Errorf("it is encoded as %q, %v, want %q", wire, err, want)
	}
	for _, v := range []any{nil, "x", []byte{1}, new(struct{})} {
		if _, ok := message.Of(v); ok {
			t.Errorf("Of a %T is a message", v)
		}
	}
}
