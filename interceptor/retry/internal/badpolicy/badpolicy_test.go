// Package badpolicy tests, in a program of its own, what happens where a
// linked .proto file states a policy that cannot be followed.
package badpolicy

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	_ "google.golang.org/protobuf/types/known/wrapperspb" // the messages of the file

	"github.com/retrysafe/retrysafe/interceptor/retry"
)

const file = `
name: "retry/bad/v1/bad.proto" package: "retry.bad.v1" syntax: "proto3"
dependency: "google/protobuf/wrappers.proto"
service {
  name: "Bad"
  method { name: "Capped" input_type: ".google.protobuf.StringValue" output_type: ".google.protobuf.StringValue"
    options { [retrysafe.v1.policy] { retry { base { seconds: 2 } cap { seconds: 1 } multiplier: 0.5 } } } }
  method { name: "Negative" input_type: ".google.protobuf.StringValue" output_type: ".google.protobuf.StringValue"
    options { [retrysafe.v1.policy] { retry { per_attempt_timeout { seconds: -1 } max_elapsed { seconds: -1 } jitter: 99 } } } }
}`

// registered is whether the file is in the registry: once, however often the
// test runs.
var registered = register()

func register() error {
	fd := new(descriptorpb.FileDescriptorProto)
	if err := prototext.Unmarshal([]byte(file), fd); err != nil {
		return err
	}
	made, err := protodesc.NewFile(fd, protoregistry.GlobalFiles)
	if err != nil {
		return err
	}
	return protoregistry.GlobalFiles.RegisterFile(made)
}

func TestAWrongPolicyInAProtoFailsWhenTheClientIsMade(t *testing.T) {
	if registered != nil {
		t.Fatal(registered)
	}
	_, err := retry.UnaryClientInterceptor()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"retrysafe.v1.policy of /retry.bad.v1.Bad/Capped: retry.cap: 1s is below the base of 2s",
		"of /retry.bad.v1.Bad/Capped: retry.multiplier: 0.5",
		"/retry.bad.v1.Bad/Negative: retry.per_attempt_timeout: -1s",
		"of /retry.bad.v1.Bad/Negative: retry.max_elapsed: -1s",
		"of /retry.bad.v1.Bad/Negative: retry.jitter: jitter_99",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
}
