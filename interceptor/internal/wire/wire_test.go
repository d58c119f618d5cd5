package wire_test

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrysafe/retrysafe/interceptor/internal/wire"
)

var reasons = []wire.Reason{
	wire.ReasonKeyRequired, wire.ReasonKeyInvalid, wire.ReasonKeyReused, wire.ReasonInProgress, wire.ReasonStoreUnavailable,
	wire.ReasonStoreFull, wire.ReasonOutcomeTooLarge, wire.ReasonRecordUnreadable, wire.ReasonOutcomeUnknown, wire.ReasonMultipleOwners,
}

// TestTheContractStands pins names and codes: clients in other languages match
// on them.
func TestTheContractStands(t *testing.T) {
	var b strings.Builder
	for _, name := range []string{wire.KeyHeader, wire.OwnerHeader, wire.AttemptsHeader, wire.ReplayedHeader, wire.PushbackTrailer} {
		fmt.Fprintf(&b, "metadata %s\n", name)
	}
	fmt.Fprintf(&b, "domain %s\n", wire.Domain)
	for _, r := range reasons {
		fmt.Fprintf(&b, "reason %s %s\n", r, status.Code(wire.Error(r, "")))
	}
	want, err := os.ReadFile("testdata/contract.golden")
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("the wire contract has changed:\n%s\nwant\n%s", b.String(), want)
	}
}

func TestAnErrorTellsItsReason(t *testing.T) {
	for _, r := range reasons {
		err := wire.ErrorRetryAfter(r, "what is wrong", 250*time.Millisecond)
		got, ok := wire.ReasonOf(fmt.Errorf("wrapped: %w", err))
		if !ok || got != r {
			t.Errorf("ReasonOf(%v) = %q, %t", err, got, ok)
		}
		var delay time.Duration
		for _, d := range status.Convert(err).Details() {
			if info, ok := d.(*errdetails.RetryInfo); ok {
				delay = info.GetRetryDelay().AsDuration()
			}
		}
		if delay != 250*time.Millisecond {
			t.Errorf("%s: RetryInfo says %v", r, delay)
		}
	}
}

func TestForeignErrorsHaveNoReason(t *testing.T) {
	foreign, err := status.New(5, "not found").WithDetails(&errdetails.ErrorInfo{Domain: "example.com", Reason: "IDEMPOTENCY_KEY_REUSED"})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{nil, os.ErrNotExist, status.Error(14, "down"), foreign.Err()} {
		if r, ok := wire.ReasonOf(err); ok {
			t.Errorf("ReasonOf(%v) = %q", err, r)
		}
	}
}

func TestParsePushback(t *testing.T) {
	for _, tt := range []struct {
		name   string
		values []string
		wait   time.Duration
		want   wire.Pushback
	}{
		{"absent", nil, 0, wire.PushbackNone},
		{"zero", []string{"0"}, 0, wire.PushbackWait},
		{"positive", []string{"1500"}, 1500 * time.Millisecond, wire.PushbackWait},
		{"as large as may be", []string{"2147483647"}, math.MaxInt32 * time.Millisecond, wire.PushbackWait},
		{"too large is unparsable, not zero", []string{"2147483648"}, 0, wire.PushbackStop},
		{"negative", []string{"-1"}, 0, wire.PushbackStop},
		{"empty", []string{""}, 0, wire.PushbackStop},
		{"a fraction", []string{"1.5"}, 0, wire.PushbackStop},
		{"a space", []string{" 1"}, 0, wire.PushbackStop},
		{"several", []string{"1", "1"}, 0, wire.PushbackStop},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wait, got := wire.ParsePushback(tt.values)
			if wait != tt.wait || got != tt.want {
				t.Errorf("ParsePushback(%q) = %v, %d", tt.values, wait, got)
			}
		})
	}
}

func FuzzParsePushback(f *testing.F) {
	for _, v := range []string{"0", "250", "-1", "2147483648", "", "x", "+5", "1e3", "٣"} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v string) {
		wait, got := wire.ParsePushback([]string{v})
		switch {
		case wait < 0 || wait > math.MaxInt32*time.Millisecond:
			t.Errorf("ParsePushback(%q) waits %v", v, wait)
		case got == wire.PushbackNone, got == wire.PushbackStop && wait != 0:
			t.Errorf("ParsePushback(%q) = %v, %d", v, wait, got)
		case got == wire.PushbackWait:
			again, verdict := wire.ParsePushback([]string{wire.PushbackValue(wait)})
			if again != wait || verdict != wire.PushbackWait {
				t.Errorf("%v does not come back: %v, %d", wait, again, verdict)
			}
		}
	})
}

func TestPushbackValue(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", 1: "1", time.Millisecond: "1", 1500 * time.Microsecond: "2", time.Hour: "3600000",
		-1: "-1", math.MaxInt64: "2147483647", math.MinInt64: "-1",
	} {
		if got := wire.PushbackValue(d); got != want {
			t.Errorf("PushbackValue(%v) = %s, want %s", d, got, want)
		}
	}
}

func TestWhatWasNotSentIsKnown(t *testing.T) {
	err := wire.NotSent(codes.InvalidArgument, "no such jitter")
	if st := status.Convert(err); st.Code() != codes.InvalidArgument || st.Message() != "no such jitter" || err.Error() != st.Err().Error() {
		t.Errorf("NotSent = %v with status %v", err, st)
	}
	if !wire.WasNotSent(fmt.Errorf("wrapped: %w", err)) {
		t.Error("WasNotSent = false")
	}
	if wire.WasNotSent(nil) || wire.WasNotSent(status.Error(codes.InvalidArgument, "of a server")) {
		t.Error("WasNotSent of a server's answer = true")
	}
}
