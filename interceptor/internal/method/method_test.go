package method_test

import (
	"strings"
	"testing"

	_ "google.golang.org/grpc/health/grpc_health_v1" // a service in the registry

	"github.com/retrysafe/retrysafe/interceptor/internal/method"
)

func TestTheMostSpecificPatternWins(t *testing.T) {
	var table method.Table[string]
	for pattern, v := range map[string]string{
		"*":                             "default",
		"/grpc.health.v1.Health/*":      "service",
		"/grpc.health.v1.Health/Check":  "method",
		"/unknown.v1.Service/Anything":  "unknown method",
		"/unknown.v1.Service/Anything2": "another",
	} {
		if err := table.Set(pattern, v); err != nil {
			t.Fatalf("Set(%q): %v", pattern, err)
		}
	}
	for fullMethod, want := range map[string]string{
		"/grpc.health.v1.Health/Check": "method",
		"/grpc.health.v1.Health/Watch": "service",
		"/other.v1.Service/Check":      "default",
		"/unknown.v1.Service/Anything": "unknown method",
		"malformed":                    "default",
		"":                             "default",
	} {
		if got, ok := table.Lookup(fullMethod); !ok || got != want {
			t.Errorf("Lookup(%q) = %q, %t, want %q", fullMethod, got, ok, want)
		}
	}
}

func TestAnEmptyTableHasNothing(t *testing.T) {
	var table method.Table[int]
	if v, ok := table.Lookup("/a.B/C"); ok {
		t.Errorf("Lookup = %d, true, want false", v)
	}
}

func TestAPatternThatCannotMatchIsRefused(t *testing.T) {
	for _, pattern := range []string{
		"", "/", "//", "/a.B", "/a.B/", "a.B/C", "/a.B/C/D", "/a..B/C", "/a.B/**", "/*/C", "**", "/a.B/C ",
		"/grpc.health.v1.Health/Chekc", // the service is known and has no such method
	} {
		var table method.Table[int]
		err := table.Set(pattern, 1)
		if err == nil {
			t.Errorf("Set(%q) succeeded", pattern)
			continue
		}
		if !strings.Contains(err.Error(), `"`+pattern+`"`) {
			t.Errorf("Set(%q): %v does not name the pattern", pattern, err)
		}
	}
}

func TestDescribeFindsWhatTheRegistryHas(t *testing.T) {
	d, ok := method.Describe("/grpc.health.v1.Health/Check")
	if !ok || d.Method == nil || d.Method.Name() != "Check" {
		t.Fatalf("Describe = %+v, %t", d, ok)
	}
	if d.Policy != nil || d.Safe {
		t.Errorf("Describe = %+v, want nothing said of retries", d)
	}
	for _, fullMethod := range []string{"/grpc.health.v1.Health/None", "/none.v1.None/Check", "Check", "", "/grpc.health.v1.HealthCheckRequest/Check"} {
		if d, ok := method.Describe(fullMethod); ok {
			t.Errorf("Describe(%q) = %+v, want nothing", fullMethod, d)
		}
	}
}
