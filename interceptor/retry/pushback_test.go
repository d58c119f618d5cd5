package retry_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrysafe/retrysafe/interceptor/retry"
)

// pushing answers each attempt with errDown and the next of these trailers.
func pushing(trailers ...metadata.MD) *server {
	return &server{answer: func(n int, s seen, _ *wrapperspb.StringValue) error {
		if n <= len(trailers) {
			var kv []string
			for _, v := range trailers[n-1]["grpc-retry-pushback-ms"] {
				kv = append(kv, "grpc-retry-pushback-ms", v)
			}
			s.setTrailer(kv...)
		}
		return errDown
	}}
}

func says(values ...string) metadata.MD { return metadata.MD{"grpc-retry-pushback-ms": values} }

func ms(all ...int) []time.Duration {
	var d []time.Duration
	for _, n := range all {
		d = append(d, time.Duration(n)*time.Millisecond)
	}
	return d
}

func TestPushback(t *testing.T) {
	for _, tt := range []struct {
		name     string
		trailers []metadata.MD
		waits    []time.Duration // of a policy that waits 100, 200, 400, ...
		reason   retry.Reason
	}{
		{"none", nil, ms(100, 200, 400), retry.ReasonMaxAttempts},
		{"takes the place of the wait", []metadata.MD{says("1500")}, ms(1500, 100, 200), retry.ReasonMaxAttempts},
		{"may be zero", []metadata.MD{says("0")}, ms(0, 100, 200), retry.ReasonMaxAttempts},
		{"resets the exponent", []metadata.MD{nil, says("7")}, ms(100, 7, 100), retry.ReasonMaxAttempts},
		{"of zero resets it too", []metadata.MD{nil, says("0")}, ms(100, 0, 100), retry.ReasonMaxAttempts},
		{"is not kept for the next attempt", []metadata.MD{says("7"), {}}, ms(7, 100, 200), retry.ReasonMaxAttempts},
		{"may exceed the cap", []metadata.MD{says("60000")}, ms(60000, 100, 200), retry.ReasonMaxAttempts},
		{"negative", []metadata.MD{says("-1")}, nil, retry.ReasonPushback},
		{"negative, later", []metadata.MD{nil, says("-1")}, ms(100), retry.ReasonPushback},
		{"unparsable", []metadata.MD{says("soon")}, nil, retry.ReasonPushback},
		{"empty", []metadata.MD{says("")}, nil, retry.ReasonPushback},
		{"too large for 32 bits is unparsable, not zero", []metadata.MD{says("2147483648")}, nil, retry.ReasonPushback},
		{"several values", []metadata.MD{says("1", "1")}, nil, retry.ReasonPushback},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			s := pushing(tt.trailers...)
			err := newClient(t, s, retry.WithPolicy(steady(4))).call(t.Context())
			exhausted(t, err, tt.reason)
			wantCode(t, err, codes.Unavailable)
			if got := s.waits(); !slices.Equal(got, tt.waits) {
				t.Errorf("waits are %v, want %v", got, tt.waits)
			}
		})
	}
}

func TestPushbackBeyondTheDeadlineEndsTheCallAtOnce(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s := pushing(says("1000"))
		start := time.Now()
		err := newClient(t, s).call(ctx)
		exhausted(t, err, retry.ReasonDeadline)
		wantCalls(t, s, 1)
		if time.Since(start) != 0 {
			t.Errorf("returned after %v", time.Since(start))
		}
	})
}

func TestPushbackDoesNotExceedTheAttempts(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := pushing(says("1"), says("1"), says("1"))
		err := newClient(t, s, retry.WithPolicy(steady(2))).call(t.Context())
		exhausted(t, err, retry.ReasonMaxAttempts)
		wantCalls(t, s, 2)
	})
}

func TestPushbackDoesNotMakeAnAnswerRetryable(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := &server{answer: func(_ int, s seen, _ *wrapperspb.StringValue) error {
			s.setTrailer("grpc-retry-pushback-ms", "0")
			return errAbsent
		}}
		if err := newClient(t, s).call(t.Context()); err != errAbsent {
			t.Errorf("error is %v", err)
		}
		wantCalls(t, s, 1)
	})
}

func withRetryInfo(t *testing.T, delays ...*durationpb.Duration) error {
	t.Helper()
	st := status.New(codes.Unavailable, "down")
	for _, d := range delays {
		more, err := st.WithDetails(&errdetails.RetryInfo{RetryDelay: d})
		if err != nil {
			t.Fatal(err)
		}
		st = more
	}
	return st.Err()
}

func TestRetryInfoCountsAsPushbackDoes(t *testing.T) {
	second := durationpb.New(time.Second)
	for _, tt := range []struct {
		name   string
		delays []*durationpb.Duration
		waits  []time.Duration
		reason retry.Reason
	}{
		{"a wait", []*durationpb.Duration{second}, ms(1000, 100), retry.ReasonMaxAttempts},
		{"zero", []*durationpb.Duration{{}}, ms(0, 100), retry.ReasonMaxAttempts},
		{"no delay says nothing", []*durationpb.Duration{nil}, ms(100, 200), retry.ReasonMaxAttempts},
		{"negative", []*durationpb.Duration{{Seconds: -1}}, nil, retry.ReasonPushback},
		{"out of range", []*durationpb.Duration{{Seconds: 1, Nanos: -1}}, nil, retry.ReasonPushback},
		{"several", []*durationpb.Duration{second, second}, nil, retry.ReasonPushback},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			s := answering(withRetryInfo(t, tt.delays...), errDown)
			err := newClient(t, s, retry.WithPolicy(steady(3))).call(t.Context())
			exhausted(t, err, tt.reason)
			if got := s.waits(); !slices.Equal(got, tt.waits) {
				t.Errorf("waits are %v, want %v", got, tt.waits)
			}
		})
	}
}

func TestTheTrailerGoesBeforeRetryInfo(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		info := withRetryInfo(t, durationpb.New(time.Second))
		s := &server{answer: func(n int, s seen, _ *wrapperspb.StringValue) error {
			s.setTrailer("grpc-retry-pushback-ms", "5")
			return info
		}}
		_ = newClient(t, s, retry.WithPolicy(steady(2))).call(t.Context())
		if got := s.waits(); !slices.Equal(got, ms(5)) {
			t.Errorf("waits are %v, want 5ms", got)
		}
	})
}

func FuzzPushback(f *testing.F) {
	for _, v := range []string{"0", "12", "-1", "2147483648", "", "x", "+1", "007", " 1"} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, value string) {
		synctest.Test(t, func(t *testing.T) {
			s := pushing(says(value))
			err := newClient(t, s, retry.WithPolicy(steady(2))).call(t.Context())
			n, parseErr := strconv.ParseInt(value, 10, 32)
			if parseErr != nil || n < 0 {
				exhausted(t, err, retry.ReasonPushback)
				wantCalls(t, s, 1)
				return
			}
			exhausted(t, err, retry.ReasonMaxAttempts)
			if got := s.waits(); !slices.Equal(got, ms(int(n))) {
				t.Errorf("pushback %q: waits are %v", value, got)
			}
		})
	})
}
