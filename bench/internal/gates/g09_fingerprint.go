package gates

import (
	"context"
	"crypto/sha256"
	"strings"
	"sync"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"

	"github.com/retrysafe/retrysafe/bench/internal/measure"
	"github.com/retrysafe/retrysafe/dedup/fingerprint"
)

// fingerprints: what a fingerprint costs next to what any costs at least: to
// serialize the message into a buffer at hand and to hash that.
func fingerprints(ctx context.Context, m *Machine) ([]measure.Finding, error) {
	var findings []measure.Finding
	for _, message := range []struct {
		name string
		m    proto.Message
	}{
		{"a debit of 100 B", debitOf100Bytes()},
		{"100 B of strings", &errdetails.ResourceInfo{
			ResourceType: "ledger.example.com/Account", ResourceName: "accounts/0190c2b4-77f0",
			Owner: "user:4711", Description: "debit 12.50 EUR, order-42, card",
		}},
		{"1 KiB of nested messages", &errdetails.QuotaFailure{Violations: violations(8)}},
		{"1 KiB of repeated strings", &errdetails.DebugInfo{StackEntries: strings.Split(strings.Repeat(strings.Repeat("f", 62)+" ", 16), " ")}},
	} {
		f, err := fingerprintOf(ctx, m.Plan, message.name, message.m)
		if err != nil {
			return nil, err
		}
		findings = append(findings, f...)
	}
	return findings, nil
}

func debitOf100Bytes() proto.Message {
	request := debitRequest()
	request.Reference = strings.Repeat("r", 50)
	return request
}

func violations(n int) []*errdetails.QuotaFailure_Violation {
	v := make([]*errdetails.QuotaFailure_Violation, n)
	for i := range v {
		v[i] = &errdetails.QuotaFailure_Violation{
			Subject: "clientip:192.0.2.1", Description: "daily limit for read operations exceeded",
			ApiService: "ledger.example.com", QuotaMetric: "read_requests", QuotaId: "per-day", QuotaValue: int64(1000 + i),
		}
	}
	return v
}

func fingerprintOf(ctx context.Context, p measure.Plan, name string, message proto.Message) ([]measure.Finding, error) {
	buffers := sync.Pool{New: func() any { return new([]byte) }}
	floor := func() error {
		buffer := buffers.Get().(*[]byte)
		wire, err := proto.MarshalOptions{}.MarshalAppend((*buffer)[:0], message)
		sha256.Sum256(wire)
		*buffer = wire
		buffers.Put(buffer)
		return err
	}
	ours := func() error { _, err := fingerprint.Message(message); return err }
	count, err := allocs(name, 0, ours)
	if err != nil {
		return nil, err
	}
	c, err := p.Cut(noGarbage).Compare(ctx, measure.Loop("ours", ours), measure.Loop("floor", floor))
	return []measure.Finding{
		count,
		one(name+" : serialize and hash", c.Ratio("ours", "floor"), measure.Times, measure.AtMost(1.5)),
		told(name, c.Of("ours"), measure.Nanoseconds),
	}, err
}
