package retry

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/retrysafe/retrysafe/interceptor/internal/key"
)

// callersKey returns the key that the caller chose: from idempotency.WithKey,
// from the outgoing metadata, or from the field of the request that the
// method's policy names as key_field. The error wraps [key.ErrInvalid].
func callersKey(ctx context.Context, req any, field protoreflect.Name) (k string, inMetadata, ok bool, err error) {
	k, inMetadata, ok, err = key.Outgoing(ctx)
	if err != nil || field == "" {
		return k, inMetadata, ok, err
	}
	inField := stringField(req, field)
	if inField == "" {
		return k, inMetadata, ok, nil
	}
	if ok && k != inField {
		return "", false, false, fmt.Errorf("%w: metadata and request hold different ones", key.ErrInvalid)
	}
	return inField, inMetadata, true, key.Validate(inField)
}

// stringField returns a field of a request, or "" where there is no such
// string.
func stringField(req any, name protoreflect.Name) string {
	m, ok := messageOf(req)
	if !ok {
		return ""
	}
	r := m.ProtoReflect()
	field := r.Descriptor().Fields().ByName(name)
	if field == nil || field.Kind() != protoreflect.StringKind || field.IsList() {
		return ""
	}
	return r.Get(field).String()
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
