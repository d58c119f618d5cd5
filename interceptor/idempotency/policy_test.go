package idempotency

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	_ "google.golang.org/grpc/health/grpc_health_v1" // a method to describe
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/retrysafe/retrysafe/dedup"
	retrysafev1 "github.com/retrysafe/retrysafe/gen/retrysafe/v1"
	"github.com/retrysafe/retrysafe/interceptor/internal/method"
)

func healthCheck(t *testing.T) protoreflect.MethodDescriptor {
	t.Helper()
	d, ok := method.Describe("/grpc.health.v1.Health/Check") // its request has a string named service
	if !ok {
		t.Fatal("no descriptor")
	}
	return d.Method
}

func TestAPolicyIsReadFromTheProto(t *testing.T) {
	m := healthCheck(t)
	p, err := policyOf(&retrysafev1.MethodPolicy{
		Key: retrysafev1.MethodPolicy_KEY_REQUIRED, Retention: durationpb.New(time.Hour), MaxExecution: durationpb.New(time.Second),
		OnUnknownOutcome: retrysafev1.MethodPolicy_UNKNOWN_OUTCOME_REJECT, KeyField: "service",
	}, m)
	want := policy{KeyRequired, time.Hour, time.Second, dedup.Reject, "service", "grpc.health.v1.HealthCheckResponse"}
	if err != nil || *p != want {
		t.Errorf("policyOf = %+v, %v", p, err)
	}
	p, err = policyOf(nil, m)
	want = policy{requirement: KeyNone, response: "grpc.health.v1.HealthCheckResponse"}
	if err != nil || *p != want || p.keyed() {
		t.Errorf("policyOf(nil) = %+v, %v", p, err)
	}
}

func TestAWrongPolicyNamesItsFields(t *testing.T) {
	m := healthCheck(t)
	_, err := policyOf(&retrysafev1.MethodPolicy{
		Key: 9, Retention: durationpb.New(-time.Second), MaxExecution: &durationpb.Duration{Nanos: -1, Seconds: 1},
		OnUnknownOutcome: 9, KeyField: "request_id",
	}, m)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"key: 9", "retention: -1s", "max_execution", "on_unknown_outcome: 9", `key_field: grpc.health.v1.HealthCheckRequest has no field "request_id"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	zero := &retrysafev1.MethodPolicy{Retention: new(durationpb.Duration)}
	if _, err := policyOf(zero, m); err == nil || !strings.Contains(err.Error(), "retention: 0s is not positive") {
		t.Errorf("a retention of zero: %v", err)
	}
	short := &retrysafev1.MethodPolicy{Retention: durationpb.New(time.Millisecond - 1)}
	if _, err := policyOf(short, m); err == nil || !strings.Contains(err.Error(), "retention: 999.999µs is less than 1ms") {
		t.Errorf("a retention that no store keeps: %v", err)
	}
}

func TestMethodsThatAreNotKnownAreNotKept(t *testing.T) {
	var keys keyTable
	keys.add(keyOption{"*", KeyOptional})
	ps, err := newPolicies(&keys)
	if err != nil {
		t.Fatal(err)
	}
	kept := func() (n int) {
		ps.resolved.Range(func(any, any) bool { n++; return true })
		return n
	}
	for _, fullMethod := range []string{"/a.B/C", "/a.B/D", "", "none", "/grpc.health.v1.Health/Chequer"} {
		if p, err := ps.of(fullMethod); err != nil || p.requirement != KeyOptional || kept() != 0 {
			t.Errorf("%q: %+v, %v, %d kept", fullMethod, p, err, kept())
		}
	}
	for range 2 {
		if p, err := ps.of("/grpc.health.v1.Health/Check"); err != nil || p.requirement != KeyOptional || kept() != 1 {
			t.Errorf("%+v, %v, %d kept", p, err, kept())
		}
	}
}

func TestAStreamTakesNoKey(t *testing.T) {
	const watch = "/grpc.health.v1.Health/Watch"
	d, ok := method.Describe(watch)
	if !ok {
		t.Fatal("no descriptor")
	}
	for key, good := range map[retrysafev1.MethodPolicy_Key]bool{
		retrysafev1.MethodPolicy_KEY_UNSPECIFIED: true, retrysafev1.MethodPolicy_KEY_NONE: true,
		retrysafev1.MethodPolicy_KEY_OPTIONAL: false, retrysafev1.MethodPolicy_KEY_REQUIRED: false,
	} {
		if _, err := policyOf(&retrysafev1.MethodPolicy{Key: key}, d.Method); errors.Is(err, errStreams) == good {
			t.Errorf("%v: %v", key, err)
		}
	}
	for pattern, good := range map[string]bool{watch: false, "/grpc.health.v1.Health/*": true, "*": true} {
		if _, err := UnaryClientInterceptor(WithMethodKey(pattern, KeyRequired)); errors.Is(err, errStreams) == good {
			t.Errorf("%s: %v", pattern, err)
		}
		if _, err := UnaryClientInterceptor(WithMethodKey(pattern, KeyNone)); err != nil {
			t.Errorf("%s: %v", pattern, err)
		}
	}
}

func TestAKeyFieldIsOneString(t *testing.T) {
	request := new(errdetails.DebugInfo).ProtoReflect().Descriptor()
	for field, ok := range map[protoreflect.Name]bool{"": true, "detail": true, "stack_entries": false, "none": false, "a b": false} {
		if err := checkKeyField(field, request); (err == nil) != ok {
			t.Errorf("%q: %v", field, err)
		}
	}
	if err := checkKeyField("retry_delay", new(errdetails.RetryInfo).ProtoReflect().Descriptor()); err == nil {
		t.Error("a message can hold a key")
	}
}

func TestTheLinkedPoliciesAreGood(t *testing.T) {
	if err := checkRegistry(); err != nil {
		t.Error(err)
	}
}
