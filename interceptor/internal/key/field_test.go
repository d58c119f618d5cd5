package key_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrysafe/retrysafe/interceptor/internal/key"
)

func TestACallsRequestMayHoldItsKey(t *testing.T) {
	for _, tt := range []struct {
		name       string
		field      protoreflect.Name
		request    any
		inMetadata string // "": none
		key        string
		bad        bool
	}{
		{name: "in the field", field: "value", request: wrapperspb.String("k1"), key: "k1"},
		{name: "in the metadata", field: "value", request: wrapperspb.String(""), inMetadata: "k1", key: "k1"},
		{name: "the same in both", field: "value", request: wrapperspb.String("k1"), inMetadata: "k1", key: "k1"},
		{name: "different ones", field: "value", request: wrapperspb.String("k1"), inMetadata: "k2", bad: true},
		{name: "nowhere", field: "value", request: wrapperspb.String("")},
		{name: "no field is named", request: wrapperspb.String("k1")},
		{name: "no field is named, and it is in the metadata", request: wrapperspb.String("k1"), inMetadata: "k2", key: "k2"},
		{name: "no such field", field: "request_id", request: wrapperspb.String("k1")},
		{name: "a field of another type", field: "value", request: wrapperspb.Bytes([]byte("k1"))},
		{name: "a message that is nil", field: "value", request: (*wrapperspb.StringValue)(nil)},
		{name: "no message", field: "value", request: "k1"},
		{name: "malformed", field: "value", request: wrapperspb.String("k 1"), bad: true},
		{name: "malformed in the metadata", field: "value", request: wrapperspb.String("k1"), inMetadata: "k 1", bad: true},
		{name: "too long", field: "value", request: wrapperspb.String(strings.Repeat("k", 256)), bad: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			md := metadata.MD{}
			if tt.inMetadata != "" {
				md.Set("idempotency-key", tt.inMetadata)
			}
			check := func(k string, ok bool, err error) {
				t.Helper()
				if errors.Is(err, key.ErrInvalid) != tt.bad || k != tt.key || ok != (tt.key != "") {
					t.Errorf("the key is %q, %t, %v, want %q", k, ok, err, tt.key)
				}
				if err != nil && strings.Contains(err.Error(), "k1") {
					t.Errorf("the error shows the key: %v", err)
				}
			}
			k, inMetadata, ok, err := key.OutgoingCall(metadata.NewOutgoingContext(context.Background(), md), tt.request, tt.field)
			check(k, ok, err)
			if err == nil && inMetadata != (tt.inMetadata != "") {
				t.Errorf("inMetadata = %t", inMetadata)
			}
			k, ok, err = key.IncomingCall(metadata.NewIncomingContext(context.Background(), md), tt.request, tt.field)
			check(k, ok, err)
		})
	}
}
