package fingerprint

import (
	"crypto/sha256"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	retrysafev1 "github.com/retrysafe/retrysafe/gen/retrysafe/v1"
)

var measured = []struct {
	name string
	m    proto.Message
}{
	{"100B", &errdetails.ResourceInfo{
		ResourceType: "ledger.example.com/Account", ResourceName: "accounts/0190c2b4-77f0", Owner: "user:4711", Description: "debit 12.50 EUR, order-42, card",
	}},
	{"70B/nested", policy()},
	{"1KiB/nested", &errdetails.QuotaFailure{Violations: violations(8)}},
	{"1KiB/flat", &errdetails.DebugInfo{StackEntries: strings.Split(strings.Repeat(strings.Repeat("f", 62)+" ", 16), " "), Detail: "d"}},
	{"1KiB/bytes", &errdetails.RequestInfo{RequestId: strings.Repeat("r", 500), ServingData: strings.Repeat("s", 500)}},
}

func policy() *retrysafev1.MethodPolicy {
	return &retrysafev1.MethodPolicy{
		Key: retrysafev1.MethodPolicy_KEY_REQUIRED, Retention: durationpb.New(time.Hour), MaxExecution: durationpb.New(time.Second),
		OnUnknownOutcome: retrysafev1.MethodPolicy_UNKNOWN_OUTCOME_REJECT, KeyField: "request_id",
		Retry: &retrysafev1.RetryPolicy{
			MaxAttempts: 5, Base: durationpb.New(1500 * time.Millisecond), Cap: durationpb.New(time.Minute), Multiplier: 1.6,
			Jitter: retrysafev1.Jitter_JITTER_EQUAL, PerAttemptTimeout: durationpb.New(2500 * time.Millisecond), MaxElapsed: durationpb.New(time.Hour),
		},
	}
}

func violations(n int) []*errdetails.QuotaFailure_Violation {
	v := make([]*errdetails.QuotaFailure_Violation, n)
	for i := range v {
		v[i] = &errdetails.QuotaFailure_Violation{
			Subject: "clientip:192.0.2.1", Description: "daily limit for read operations exceeded", ApiService: "ledger.example.com",
			QuotaMetric: "read_requests", QuotaId: "per-day", QuotaValue: int64(1000 + i),
		}
	}
	return v
}

func TestMessageDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes sync.Pool drop what it is given")
	}
	for _, tt := range measured {
		if n := testing.AllocsPerRun(200, func() {
			if _, err := Message(tt.m); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations, want 0", tt.name, n)
		}
	}
}

// BenchmarkMessage stands beside what any fingerprint costs at least: to
// serialize the message into a buffer at hand, and to hash it.
func BenchmarkMessage(b *testing.B) {
	buffers := sync.Pool{New: func() any { return new([]byte) }}
	for _, bb := range measured {
		size := int64(proto.Size(bb.m))
		b.Run(bb.name+"/floor", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(size)
			for b.Loop() {
				buf := buffers.Get().(*[]byte)
				wire, err := proto.MarshalOptions{}.MarshalAppend((*buf)[:0], bb.m)
				if err != nil {
					b.Fatal(err)
				}
				sha256.Sum256(wire)
				*buf = wire
				buffers.Put(buf)
			}
		})
		b.Run(bb.name+"/fingerprint", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(size)
			for b.Loop() {
				if _, err := Message(bb.m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkMessageWithMaps has what cannot be hashed as it stands.
func BenchmarkMessageWithMaps(b *testing.B) {
	m := &errdetails.ErrorInfo{Reason: "INSUFFICIENT_FUNDS", Domain: "ledger.example.com", Metadata: map[string]string{
		"account": "A-1", "shortfall": "1250", "currency": "EUR", "limit": "100000",
	}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Message(m); err != nil {
			b.Fatal(err)
		}
	}
}
