package key_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrysafe/retrysafe/interceptor/internal/key"
)

func TestInFieldFindsAStringOfThatName(t *testing.T) {
	for _, tt := range []struct {
		name, field string
		request     any
		key         string
		bad         bool
	}{
		{name: "a key", field: "value", request: wrapperspb.String("k1"), key: "k1"},
		{name: "an empty field", field: "value", request: wrapperspb.String("")},
		{name: "no field is named", request: wrapperspb.String("k1")},
		{name: "no such field", field: "request_id", request: wrapperspb.String("k1")},
		{name: "a field of another type", field: "value", request: wrapperspb.Bytes([]byte("k1"))},
		{name: "a message that is nil", field: "value", request: (*wrapperspb.StringValue)(nil)},
		{name: "no message", field: "value", request: "k1"},
		{name: "a malformed key", field: "value", request: wrapperspb.String("k 1"), bad: true},
		{name: "a key that is too long", field: "value", request: wrapperspb.String(strings.Repeat("k", 256)), bad: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k, ok, err := key.InField(tt.request, protoreflect.Name(tt.field))
			if tt.bad {
				if !errors.Is(err, key.ErrInvalid) {
					t.Errorf("error is %v, want ErrInvalid", err)
				}
				return
			}
			if err != nil || k != tt.key || ok != (tt.key != "") {
				t.Errorf("InField = %q, %t, %v, want %q", k, ok, err, tt.key)
			}
		})
	}
}

func TestMetadataAndRequestAgree(t *testing.T) {
	for _, tt := range []struct {
		name                string
		inMetadata, inField string
		key                 string
		bad                 bool
	}{
		{name: "neither holds one"},
		{name: "the metadata does", inMetadata: "k1", key: "k1"},
		{name: "the request does", inField: "k1", key: "k1"},
		{name: "both hold the same", inMetadata: "k1", inField: "k1", key: "k1"},
		{name: "they differ", inMetadata: "k1", inField: "k2", bad: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k, ok, err := key.Agreed(tt.inMetadata, tt.inMetadata != "", tt.inField, tt.inField != "")
			if errors.Is(err, key.ErrInvalid) != tt.bad || k != tt.key || ok != (tt.key != "") {
				t.Errorf("Agreed = %q, %t, %v", k, ok, err)
			}
			if err != nil && strings.Contains(err.Error(), "k1") {
				t.Errorf("the error shows the key: %v", err)
			}
		})
	}
}
