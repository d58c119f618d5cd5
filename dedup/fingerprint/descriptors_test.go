package fingerprint

import (
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	_ "github.com/retrysafe/retrysafe/gen/retrysafe/v1" // the option
)

// orders has a field of every kind that the canonical form cares about.
const orders = `
name: "orders.proto" package: "test" syntax: "proto3"
message_type {
  name: "Order"
  field { name: "id" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "amount" number: 2 type: TYPE_INT64 label: LABEL_OPTIONAL }
  field { name: "tags" number: 3 type: TYPE_STRING label: LABEL_REPEATED }
  field { name: "labels" number: 4 type: TYPE_MESSAGE type_name: ".test.Order.LabelsEntry" label: LABEL_REPEATED }
  field { name: "lines" number: 5 type: TYPE_MESSAGE type_name: ".test.Order.LinesEntry" label: LABEL_REPEATED }
  field { name: "line" number: 6 type: TYPE_MESSAGE type_name: ".test.Line" label: LABEL_OPTIONAL }
  field { name: "more" number: 7 type: TYPE_MESSAGE type_name: ".test.Line" label: LABEL_REPEATED }
  field { name: "card" number: 8 type: TYPE_STRING label: LABEL_OPTIONAL oneof_index: 0 }
  field { name: "spots" number: 100 type: TYPE_MESSAGE type_name: ".test.Point" label: LABEL_OPTIONAL oneof_index: 0 }
  field { name: "rate" number: 9 type: TYPE_DOUBLE label: LABEL_OPTIONAL }
  field { name: "blob" number: 10 type: TYPE_BYTES label: LABEL_OPTIONAL }
  field { name: "sent_at" number: 11 type: TYPE_STRING label: LABEL_OPTIONAL options { [retrysafe.v1.fingerprint_ignore]: true } }
  field { name: "parent" number: 12 type: TYPE_MESSAGE type_name: ".test.Order" label: LABEL_OPTIONAL }
  field { name: "packed" number: 13 type: TYPE_SINT32 label: LABEL_REPEATED }
  field { name: "pairs" number: 14 type: TYPE_MESSAGE type_name: ".test.Pair" label: LABEL_REPEATED }
  field { name: "point" number: 15 type: TYPE_MESSAGE type_name: ".test.Point" label: LABEL_OPTIONAL }
  field { name: "points" number: 16 type: TYPE_MESSAGE type_name: ".test.Point" label: LABEL_REPEATED }
  field { name: "places" number: 17 type: TYPE_MESSAGE type_name: ".test.Order.PlacesEntry" label: LABEL_REPEATED }
  field { name: "last" number: 536870911 type: TYPE_FIXED32 label: LABEL_OPTIONAL }
  oneof_decl { name: "means" }
  nested_type {
    name: "LabelsEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
    field { name: "value" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL }
  }
  nested_type {
    name: "LinesEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_INT64 label: LABEL_OPTIONAL }
    field { name: "value" number: 2 type: TYPE_MESSAGE type_name: ".test.Line" label: LABEL_OPTIONAL }
  }
  nested_type {
    name: "PlacesEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
    field { name: "value" number: 2 type: TYPE_MESSAGE type_name: ".test.Point" label: LABEL_OPTIONAL }
  }
}
message_type {
  name: "Line"
  field { name: "sku" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "count" number: 2 type: TYPE_INT32 label: LABEL_OPTIONAL }
  field { name: "note" number: 3 type: TYPE_STRING label: LABEL_OPTIONAL options { [retrysafe.v1.fingerprint_ignore]: true } }
  field { name: "attrs" number: 4 type: TYPE_MESSAGE type_name: ".test.Line.AttrsEntry" label: LABEL_REPEATED }
  nested_type {
    name: "AttrsEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_BOOL label: LABEL_OPTIONAL }
    field { name: "value" number: 2 type: TYPE_UINT64 label: LABEL_OPTIONAL }
  }
}
message_type {
  name: "Pair"
  field { name: "first" number: 1 type: TYPE_MESSAGE type_name: ".test.Line" label: LABEL_OPTIONAL }
  field { name: "second" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL }
}
message_type {
  name: "Point"
  field { name: "x" number: 1 type: TYPE_SINT64 label: LABEL_OPTIONAL }
  field { name: "y" number: 2 type: TYPE_SINT64 label: LABEL_OPTIONAL }
  field { name: "name" number: 3 type: TYPE_STRING label: LABEL_OPTIONAL }
}`

// legacy has what older files have: groups, required fields and extensions.
const legacy = `
name: "legacy.proto" package: "test" syntax: "editions" edition: EDITION_2023
message_type {
  name: "Node"
  field { name: "branch" number: 1 type: TYPE_MESSAGE type_name: ".test.Node" label: LABEL_OPTIONAL options { features { message_encoding: DELIMITED } } }
  field { name: "value" number: 2 type: TYPE_INT64 label: LABEL_OPTIONAL }
  field { name: "twigs" number: 3 type: TYPE_MESSAGE type_name: ".test.Node" label: LABEL_REPEATED options { features { message_encoding: DELIMITED } } }
  field { name: "pairs" number: 4 type: TYPE_MESSAGE type_name: ".test.Node" label: LABEL_REPEATED }
  field { name: "seen" number: 5 type: TYPE_INT64 label: LABEL_OPTIONAL options { [retrysafe.v1.fingerprint_ignore]: true } }
  field { name: "must" number: 6 type: TYPE_INT64 label: LABEL_OPTIONAL options { features { field_presence: LEGACY_REQUIRED } } }
  extension_range { start: 100 end: 200 }
}`

func parseFile(t testing.TB, text string) *descriptorpb.FileDescriptorProto {
	t.Helper()
	fd := new(descriptorpb.FileDescriptorProto)
	if err := prototext.Unmarshal([]byte(text), fd); err != nil {
		t.Fatal(err)
	}
	return fd
}

func build(t testing.TB, fd *descriptorpb.FileDescriptorProto, message protoreflect.Name) protoreflect.MessageDescriptor {
	t.Helper()
	file, err := protodesc.NewFile(fd, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	return file.Messages().ByName(message)
}

// without returns fd with those fields of a message left out that drop names.
func without(fd *descriptorpb.FileDescriptorProto, message string, drop func(*descriptorpb.FieldDescriptorProto) bool) *descriptorpb.FileDescriptorProto {
	fd = proto.CloneOf(fd)
	for _, m := range fd.MessageType {
		if m.GetName() != message {
			continue
		}
		var kept []*descriptorpb.FieldDescriptorProto
		oneof := false
		for _, f := range m.Field {
			if drop(f) {
				continue
			}
			kept = append(kept, f)
			oneof = oneof || f.OneofIndex != nil
		}
		m.Field = kept
		if !oneof {
			m.OneofDecl = nil
		}
	}
	return fd
}
