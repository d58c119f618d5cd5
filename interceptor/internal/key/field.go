package key

import (
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/retrysafe/retrysafe/interceptor/internal/message"
)

// InField returns the key in the field of a request that a policy names as
// key_field, as AIP-155's request_id. It is false where field or its value is
// empty, and where the request has no such string. The error wraps
// [ErrInvalid].
func InField(request any, field protoreflect.Name) (key string, ok bool, err error) {
	if field == "" {
		return "", false, nil
	}
	m, ok := message.Of(request)
	if !ok {
		return "", false, nil
	}
	r := m.ProtoReflect()
	fd := r.Descriptor().Fields().ByName(field)
	if fd == nil || fd.Kind() != protoreflect.StringKind || fd.IsList() {
		return "", false, nil
	}
	key = r.Get(fd).String()
	if key == "" {
		return "", false, nil
	}
	return key, true, Validate(key)
}

// Agreed returns the key that the metadata of a call and its request hold
// between them. The error wraps [ErrInvalid] where they hold different ones.
func Agreed(inMetadata string, hasMetadata bool, inField string, hasField bool) (key string, ok bool, err error) {
	if hasMetadata && hasField && inMetadata != inField {
		return "", false, fmt.Errorf("%w: metadata and request hold different ones", ErrInvalid)
	}
	if hasMetadata {
		return inMetadata, true, nil
	}
	return inField, hasField, nil
}
