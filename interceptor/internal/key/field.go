package key

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/retrysafe/retrysafe/interceptor/internal/message"
)

// OutgoingCall is [Outgoing] for a call with that request, whose method's
// policy may name a field of it as key_field, as AIP-155's request_id: the key
// may stand there too.
func OutgoingCall(ctx context.Context, req any, field protoreflect.Name) (key string, inMetadata, ok bool, err error) {
	key, inMetadata, ok, err = Outgoing(ctx)
	if err != nil || field == "" {
		return key, inMetadata, ok, err
	}
	key, ok, err = withField(key, ok, req, field)
	return key, inMetadata, ok, err
}

// IncomingCall is [FromIncomingMetadata] for a call with that request, as
// [OutgoingCall].
func IncomingCall(ctx context.Context, req any, field protoreflect.Name) (key string, ok bool, err error) {
	key, ok, err = FromIncomingMetadata(ctx)
	if err != nil || field == "" {
		return key, ok, err
	}
	return withField(key, ok, req, field)
}

// withField returns the key that a call has already, or that of its request's
// field. They may not differ.
func withField(key string, ok bool, req any, field protoreflect.Name) (string, bool, error) {
	inField := stringIn(req, field)
	if inField == "" {
		return key, ok, nil
	}
	if err := Validate(inField); err != nil {
		return "", false, err
	}
	if ok && key != inField {
		return "", false, fmt.Errorf("%w: metadata and request hold different ones", ErrInvalid)
	}
	return inField, true, nil
}

// stringIn returns the value of a field, or "" where the request has no such
// string.
func stringIn(req any, field protoreflect.Name) string {
	m, ok := message.Of(req)
	if !ok {
		return ""
	}
	r := m.ProtoReflect()
	fd := r.Descriptor().Fields().ByName(field)
	if fd == nil || fd.Kind() != protoreflect.StringKind || fd.IsList() {
		return ""
	}
	return r.Get(fd).String()
}
