package idempotency

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/retrysafe/retrysafe/interceptor/internal/key"
)

// keyIn returns the key in the field of a request that the policy names, as
// AIP-155's request_id. An empty field holds none. The error wraps
// [key.ErrInvalid].
func keyIn(request any, field protoreflect.Name) (string, bool, error) {
	if field == "" {
		return "", false, nil
	}
	m, ok := messageOf(request)
	if !ok {
		return "", false, nil
	}
	r := m.ProtoReflect()
	fd := r.Descriptor().Fields().ByName(field)
	if fd == nil || fd.Kind() != protoreflect.StringKind || fd.IsList() {
		return "", false, nil
	}
	k := r.Get(fd).String()
	if k == "" {
		return "", false, nil
	}
	return k, true, key.Validate(k)
}

// oneKey returns the key that two places hold between them.
func oneKey(a string, inA bool, b string, inB bool) (string, bool, error) {
	if inA && inB && a != b {
		return "", false, fmt.Errorf("%w: metadata and request hold different ones", key.ErrInvalid)
	}
	if inA {
		return a, true, nil
	}
	return b, inB, nil
}

// messageOf returns v as the message that grpc's own codec takes it for.
func messageOf(v any) (proto.Message, bool) {
	switch v := v.(type) {
	case proto.Message:
		return v, true
	case protoadapt.MessageV1:
		return protoadapt.MessageV2Of(v), true
	}
	return nil, false
}
