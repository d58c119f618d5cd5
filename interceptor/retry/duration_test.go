package retry

import (
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"1s": time.Second, "0.1s": 100 * time.Millisecond, ".1s": 100 * time.Millisecond, "1.s": time.Second,
		"0.000000001s": 1, "+1s": time.Second, "-1.5s": -1500 * time.Millisecond, "0s": 0, "315576000000s": math.MaxInt64, "9223372036.854775807s": math.MaxInt64,
	} {
		if got, ok := parseDuration(text); !ok || got != want {
			t.Errorf("parseDuration(%q) = %v, %t, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "s", ".s", "-s", "1", "1m", "1.0000000001s", "1e3s", "+-1s", "1 s", "--1s", "315576000001s", "99999999999999999999s", "1.2.3s", "0x1s"} {
		if got, ok := parseDuration(text); ok {
			t.Errorf("parseDuration(%q) = %v", text, got)
		}
	}
}

// What protobuf's own JSON reads as a duration, we read as the same one.
func FuzzParseDuration(f *testing.F) {
	for _, text := range []string{"1s", "0.5s", "-3.000000001s", "315576000000s", "1.s", ".1s", "1e3s", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, `\`) || !strings.ContainsAny(text, "0123456789") {
			return // an escape is another text to JSON; protojson takes ".s" for zero
		}
		var want durationpb.Duration
		if protojson.Unmarshal([]byte(`"`+text+`"`), &want) != nil || want.CheckValid() != nil {
			return
		}
		got, ok := parseDuration(text)
		if !ok || got != want.AsDuration() && want.AsDuration() < math.MaxInt64 && want.AsDuration() > math.MinInt64 {
			t.Errorf("parseDuration(%q) = %v, %t, want %v", text, got, ok, want.AsDuration())
		}
	})
}
