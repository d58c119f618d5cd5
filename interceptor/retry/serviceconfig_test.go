package retry_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/retrysafe/retrysafe/interceptor/retry"
)

const serviceConfig = `{
  "loadBalancingConfig": [{"round_robin": {}}],
  "methodConfig": [
    {
      "name": [{"service": "a.B", "method": "C"}],
      "timeout": "10s",
      "retryPolicy": {"maxAttempts": 7, "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE", "INTERNAL"]}
    },
    {
      "name": [{"service": "a.B"}, {"service": "a.Twin"}],
      "retryPolicy": {"maxAttempts": 4, "initialBackoff": ".1s", "maxBackoff": "0.05s", "backoffMultiplier": 0.5, "retryableStatusCodes": [14]}
    },
    {"name": [{"service": "a.B", "method": "Timed"}], "timeout": "2s"},
    {
      "name": [{}],
      "retryPolicy": {"maxAttempts": 2, "initialBackoff": "1s", "maxBackoff": "1s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}
    }
  ],
  "retryThrottling": {"maxTokens": 20, "tokenRatio": 0.5}
}`

func TestAServiceConfigSetsPolicies(t *testing.T) {
	for _, tt := range []struct {
		name, method string
		opts         []retry.Option
		calls        int
	}{
		{"a method, with its attempts as written", "/a.B/C", nil, 7},
		{"a service", "/a.B/D", nil, 4},
		{"another name of the same entry", "/a.Twin/D", nil, 4},
		{"an entry without retryPolicy is not retried", "/a.B/Timed", nil, 1},
		{"the default entry", "/x.Y/Z", nil, 2},
		{"code wins for the same pattern", "/x.Y/Z", []retry.Option{retry.WithPolicy(retry.Policy{MaxAttempts: 5})}, 5},
		{"code does not win for a wider one", "/a.B/C", []retry.Option{retry.WithPolicy(retry.Policy{MaxAttempts: 5})}, 7},
		{"code wins for a narrower one", "/a.B/D", []retry.Option{retry.WithMethodPolicy("/a.B/D", retry.Policy{MaxAttempts: 3})}, 3},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			s := answering(errDown)
			err := newClient(t, s, append(tt.opts, retry.WithServiceConfig(serviceConfig))...).callMethod(t.Context(), tt.method)
			wantCalls(t, s, tt.calls)
			exhausted(t, err, retry.ReasonMaxAttempts)
		})
	}
}

func TestAServiceConfigsCodesAreTheOnlyOnes(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := answering(errSlow)
		if err := newClient(t, s, retry.WithServiceConfig(serviceConfig)).callMethod(t.Context(), "/a.B/C"); err != errSlow {
			t.Errorf("error is %v", err)
		}
		wantCalls(t, s, 1)
	})
}

func TestAServiceConfigDoesNotMakeACallSafe(t *testing.T) {
	s := answering(errDown)
	err := client{t, newInterceptor(t, retry.WithServiceConfig(serviceConfig)), s}.callMethod(t.Context(), "/a.B/C")
	wantCalls(t, s, 1)
	exhausted(t, err, retry.ReasonNotRetrySafe)
}

func TestAServiceConfigsTimeoutIsTheWholeCalls(t *testing.T) {
	for _, safety := range []retry.Safety{retry.SafetySafe, retry.SafetyUnsafe} {
		bubble(t, safety.String(), func(t *testing.T) {
			s := &server{answer: untilDone}
			start := time.Now()
			opts := []retry.Option{retry.WithServiceConfig(serviceConfig), retry.WithMethodSafety("*", safety)}
			err := newClient(t, s, opts...).callMethod(t.Context(), "/a.B/Timed")
			wantCode(t, err, codes.DeadlineExceeded)
			wantCalls(t, s, 1)
			if got := time.Since(start); got != 2*time.Second {
				t.Errorf("returned after %v, want 2s", got)
			}
		})
	}
	bubble(t, "and no attempt's", func(t *testing.T) {
		s := answering(errDown)
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		err := newClient(t, s, retry.WithServiceConfig(strings.ReplaceAll(serviceConfig, `"10s"`, `"0.000001s"`))).callMethod(ctx, "/a.B/C")
		exhausted(t, err, retry.ReasonDeadline)
		if time.Since(start) > time.Second {
			t.Errorf("returned after %v", time.Since(start))
		}
	})
}

func TestAServiceConfigsThrottlingIsTheBudget(t *testing.T) {
	many := retry.WithPolicy(retry.Policy{MaxAttempts: 100, Backoff: retry.Backoff{Immediate: true}})
	for _, tt := range []struct {
		name  string
		opts  []retry.Option
		calls int
	}{
		{"from the config", nil, 10},
		{"code wins", []retry.Option{retry.WithBudget(retry.Budget{MaxTokens: 10})}, 5},
		{"code takes it away", []retry.Option{retry.WithoutBudget()}, 100},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			s := answering(errDown)
			_ = newClient(t, s, append(tt.opts, many, retry.WithServiceConfig(serviceConfig))...).callMethod(t.Context(), "/x.Y/Z")
			wantCalls(t, s, tt.calls)
		})
	}
}

func TestAServiceConfigsMistakesNameTheirField(t *testing.T) {
	policy := func(field, value string) string {
		fields := map[string]string{"maxAttempts": "3", "initialBackoff": `"1s"`, "maxBackoff": `"2s"`, "backoffMultiplier": "2", "retryableStatusCodes": `["UNAVAILABLE"]`}
		fields[field] = value
		var all []string
		for f, v := range fields {
			if v != "" {
				all = append(all, `"`+f+`":`+v)
			}
		}
		return `{"methodConfig":[{"name":[{}],"retryPolicy":{` + strings.Join(all, ",") + `}}]}`
	}
	const at = "methodConfig[0].retryPolicy."
	for _, tt := range []struct{ want, json string }{
		{"not a service config in JSON", ``},
		{"not a service config in JSON", `[]`},
		{at + "maxAttempts: missing", policy("maxAttempts", "")},
		{at + "maxAttempts: 1 is not a whole number of at least 2", policy("maxAttempts", "1")},
		{at + "maxAttempts: 2.5 is not", policy("maxAttempts", "2.5")},
		{at + "maxAttempts: 1e+12 is not", policy("maxAttempts", "1e12")},
		{at + "maxAttempts: a JSON string is no", policy("maxAttempts", `"3"`)},
		{at + "initialBackoff: missing", policy("initialBackoff", "")},
		{at + `initialBackoff: "1" is no duration`, policy("initialBackoff", `"1"`)},
		{at + `initialBackoff: "1m" is no duration`, policy("initialBackoff", `"1m"`)},
		{at + `initialBackoff: "0s" is not above zero`, policy("initialBackoff", `"0s"`)},
		{at + `maxBackoff: "-1s" is not above zero`, policy("maxBackoff", `"-1s"`)},
		{at + "backoffMultiplier: 0 is not above zero", policy("backoffMultiplier", "0")},
		{at + "retryableStatusCodes: no code is named", policy("retryableStatusCodes", "[]")},
		{at + `retryableStatusCodes[1]: "UNAVAILABEL" is no status code`, policy("retryableStatusCodes", `["UNAVAILABLE","UNAVAILABEL"]`)},
		{at + "retryableStatusCodes[0]: 17 is no status code", policy("retryableStatusCodes", `[17]`)},
		{at + "retryableStatusCodes[0]: OK is not", policy("retryableStatusCodes", `["OK"]`)},
		{"methodConfig[0].timeout: ", `{"methodConfig":[{"name":[{}],"timeout":"soon"}]}`},
		{"methodConfig[0].name[0]: a method needs its service", `{"methodConfig":[{"name":[{"method":"C"}]}]}`},
		{"methodConfig[1].name[0]: the same name as methodConfig[0].name[1]", `{"methodConfig":[{"name":[{},{"service":"a.B"}]},{"name":[{"service":"a.B"}]}]}`},
		{"methodConfig[0].name[0]: pattern", `{"methodConfig":[{"name":[{"service":"a b"}]}]}`},
		{"has no method Dedit", `{"methodConfig":[{"name":[{"service":"ledger.v1.LedgerService","method":"Dedit"}]}]}`},
		{"methodConfig[0]: only one of retryPolicy and hedgingPolicy", strings.Replace(policy("", ""), `"name"`, `"hedgingPolicy":{},"name"`, 1)},
		{"methodConfig[0]: a JSON number", `{"methodConfig":[3]}`},
		{"retryThrottling.maxTokens: missing", `{"retryThrottling":{"tokenRatio":1}}`},
		{"retryThrottling.maxTokens: 1001 is not between", `{"retryThrottling":{"maxTokens":1001,"tokenRatio":1}}`},
		{"retryThrottling.tokenRatio: 0 is not above zero", `{"retryThrottling":{"maxTokens":10,"tokenRatio":0}}`},
		{"retryThrottling.tokenRatio: 0.0001 is not a number of at least", `{"retryThrottling":{"maxTokens":10,"tokenRatio":0.0001}}`},
	} {
		t.Run(tt.want, func(t *testing.T) {
			_, err := retry.UnaryClientInterceptor(retry.WithServiceConfig(tt.json))
			if err == nil || !strings.Contains(err.Error(), "WithServiceConfig: ") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want it to say %q", err, tt.want)
			}
		})
	}
	_, err := retry.UnaryClientInterceptor(retry.WithServiceConfig(`{"methodConfig":[{"name":[{}],"timeout":"x","retryPolicy":{}}],"retryThrottling":{}}`))
	if err == nil || strings.Count(err.Error(), "\n") != 7 {
		t.Errorf("not all of the eight mistakes are reported at once:\n%v", err)
	}
}

func FuzzServiceConfig(f *testing.F) {
	f.Add(serviceConfig)
	f.Add(`{"methodConfig":[{"name":[{"service":"a.B","method":"C"}],"timeout":"315576000000.999999999s"}]}`)
	f.Add(`{"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":1e308}}]}`)
	f.Add(`{"retryThrottling":{"maxTokens":1e-9,"tokenRatio":1e300}}`)
	f.Add(`{"methodConfig":null}`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, json string) {
		i, err := retry.UnaryClientInterceptor(retry.WithServiceConfig(json))
		if (i == nil) == (err == nil) {
			t.Fatalf("interceptor %t, error %v", i != nil, err)
		}
		if i == nil {
			return
		}
		// A config that is taken makes calls that end.
		s := answering(errDown)
		ctx, cancel := context.WithCancel(context.Background())
		c := client{t, i, s}
		cancel()
		_ = c.call(ctx, retry.CallSafety(retry.SafetySafe))
		wantCalls(t, s, 1)
	})
}
