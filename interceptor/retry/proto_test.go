package retry_test

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	ledgerv1 "github.com/retrysafe/retrysafe/gen/ledger/v1"
	"github.com/retrysafe/retrysafe/interceptor/idempotency"
	"github.com/retrysafe/retrysafe/interceptor/retry"
)

// A service with a policy of each kind.
const (
	required   = "/retry.test.v1.Orders/Required"
	optional   = "/retry.test.v1.Orders/Optional"
	none       = "/retry.test.v1.Orders/None"
	noneIdem   = "/retry.test.v1.Orders/NoneIdempotent"
	readOnly   = "/retry.test.v1.Orders/ReadOnly"
	silent     = "/retry.test.v1.Orders/Silent"
	fiveTimes  = "/retry.test.v1.Orders/FiveTimes"
	inTheField = "/retry.test.v1.Orders/InTheField"
)

const ordersFile = `
name: "retry/test/v1/orders.proto" package: "retry.test.v1" syntax: "proto3"
dependency: "google/protobuf/wrappers.proto"
service {
  name: "Orders"
  method { name: "Required" input_type: ".google.protobuf.StringValue" output_type: ".google.protobuf.StringValue"
    options { [retrysafe.v1.policy] { key: KEY_REQUIRED } idempotency_level: IDEMPOTENT } }
  method { name: "Optional" input_type: ".google.protobuf.StringValue" output_type: ".google.protobuf.StringValue"
    options { [retrysafe.v1.policy] { key: KEY_OPTIONAL } } }
  method { name: "None" input_type: ".google.protobuf.StringValue" output_type: ".google.protobuf.StringValue"
    options { [retrysafe.v1.policy] { key: KEY_NONE } } }
  method { name: "NoneIdempotent" input_type: ".google.protobuf.StringValue" output_type: ".google.protobuf.StringValue"
    options { [retrysafe.v1.policy] { key: KEY_NONE } idempotency_level: IDEMPOTENT } }
  method { name: "ReadOnly" input_type: ".google.protobuf.StringValue" output_type: ".google.protobuf.StringValue"
    options { idempotency_level: NO_SIDE_EFFECTS } }
  method { name: "Silent" input_type: ".google.protobuf.StringValue" output_type: ".google.protobuf.StringValue" }
  method { name: "FiveTimes" input_type: ".google.protobuf.StringValue" output_type: ".google.protobuf.StringValue"
    options { idempotency_level: NO_SIDE_EFFECTS [retrysafe.v1.policy] {
      retry { max_attempts: 5 base { } cap { nanos: 1000000 } jitter: JITTER_NONE } } } }
  method { name: "InTheField" input_type: ".google.protobuf.StringValue" output_type: ".google.protobuf.StringValue"
    options { [retrysafe.v1.policy] { key: KEY_REQUIRED key_field: "value" } } }
}`

// ordersErr is whether the service is in the registry: once, for all tests.
var ordersErr = registerOrders()

func registerOrders() error {
	fd := new(descriptorpb.FileDescriptorProto)
	if err := prototext.Unmarshal([]byte(ordersFile), fd); err != nil {
		return err
	}
	file, err := protodesc.NewFile(fd, protoregistry.GlobalFiles)
	if err != nil {
		return err
	}
	return protoregistry.GlobalFiles.RegisterFile(file)
}

func TestTheClassComesFromTheProto(t *testing.T) {
	if ordersErr != nil {
		t.Fatal(ordersErr)
	}
	for method, want := range map[string]retry.Safety{
		required: retry.SafetyKeyed, optional: retry.SafetyKeyed,
		none: retry.SafetyUnsafe, noneIdem: retry.SafetySafe, readOnly: retry.SafetySafe, silent: retry.SafetyUnsafe,
		fiveTimes: retry.SafetySafe, "/unknown.v1.Unknown/Call": retry.SafetyUnsafe, "nonsense": retry.SafetyUnsafe,
		ledgerv1.LedgerService_Debit_FullMethodName:      retry.SafetyKeyed,
		ledgerv1.LedgerService_GetAccount_FullMethodName: retry.SafetySafe,
		grpc_health_v1.Health_Check_FullMethodName:       retry.SafetyUnsafe,
	} {
		bubble(t, method, func(t *testing.T) {
			s := answering(errDown)
			_ = client{t, newInterceptor(t), s}.callMethod(t.Context(), method)
			got := retry.SafetySafe
			if s.calls() == 1 {
				got = retry.SafetyUnsafe
			} else if len(s.values("idempotency-key")[0]) == 1 {
				got = retry.SafetyKeyed
			}
			if got != want {
				t.Errorf("the class is %v, want %v", got, want)
			}
		})
	}
}

func TestTheClientsConfigurationGoesBeforeTheProto(t *testing.T) {
	for _, tt := range []struct {
		name, method string
		opts         []retry.Option
		calls        int
	}{
		{"the policy of the .proto", fiveTimes, nil, 5},
		{"a policy of the client", fiveTimes, []retry.Option{retry.WithPolicy(retry.Policy{MaxAttempts: 2})}, 2},
		{"a policy for another method", fiveTimes, []retry.Option{retry.WithMethodPolicy(readOnly, retry.Policy{MaxAttempts: 2})}, 5},
		{"a class of the client", silent, []retry.Option{retry.WithMethodSafety(silent, retry.SafetySafe)}, 3},
		{"a lower class of the client", readOnly, []retry.Option{retry.WithMethodSafety("/retry.test.v1.Orders/*", retry.SafetyUnsafe)}, 1},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			s := answering(errDown)
			_ = client{t, newInterceptor(t, tt.opts...), s}.callMethod(t.Context(), tt.method)
			wantCalls(t, s, tt.calls)
		})
	}
}

func TestABaseOfZeroInTheProtoMeansNoWait(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := answering(errDown)
		_ = client{t, newInterceptor(t), s}.callMethod(t.Context(), fiveTimes)
		for _, w := range s.waits() {
			if w != 0 {
				t.Errorf("waited %v", w)
			}
		}
	})
}

func TestTheRequestMayHoldTheKey(t *testing.T) {
	for _, tt := range []struct {
		name, field, own string
		code             codes.Code
		want             string // "": a new one
	}{
		{name: "the field alone", field: "order-42", code: codes.Unavailable, want: "order-42"},
		{name: "the field and the same from the caller", field: "order-42", own: "order-42", code: codes.Unavailable, want: "order-42"},
		{name: "an empty field", own: "order-43", code: codes.Unavailable, want: "order-43"},
		{name: "neither", code: codes.Unavailable},
		{name: "they differ", field: "order-42", own: "order-43", code: codes.InvalidArgument},
		{name: "malformed", field: "order 42", code: codes.InvalidArgument},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			ctx := t.Context()
			if tt.own != "" {
				ctx = idempotency.WithKey(ctx, tt.own)
			}
			s := answering(errDown)
			err := newInterceptor(t)(ctx, inTheField, wrapperspb.String(tt.field), new(wrapperspb.StringValue), nil, s.invoke)
			wantCode(t, err, tt.code)
			if tt.code == codes.InvalidArgument {
				wantCalls(t, s, 0)
				return
			}
			wantCalls(t, s, 3)
			if got := oneKey(t, s); tt.want != "" && got != tt.want {
				t.Errorf("the key is %q, want %q", got, tt.want)
			}
		})
	}
}
