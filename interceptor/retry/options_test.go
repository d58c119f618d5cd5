package retry_test

import (
	"math"
	"strings"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/retrysafe/retrysafe/interceptor/retry"
)

func backoff(b retry.Backoff) retry.Option { return retry.WithPolicy(retry.Policy{Backoff: b}) }

func TestEachMistakeNamesItsOption(t *testing.T) {
	for _, tt := range []struct {
		want string
		opt  retry.Option
	}{
		{"option 0 is nil", nil},
		{`WithPolicy: pattern "*": MaxAttempts: -1 is negative`, retry.WithPolicy(retry.Policy{MaxAttempts: -1})},
		{"PerAttemptTimeout: -1s is negative", retry.WithPolicy(retry.Policy{PerAttemptTimeout: -time.Second})},
		{"MaxElapsed: -1s is negative", retry.WithPolicy(retry.Policy{MaxElapsed: -time.Second})},
		{"Codes[1]: OK is not the code of a failure", retry.WithPolicy(retry.Policy{Codes: []codes.Code{codes.Unavailable, codes.OK}})},
		{"Codes[0]: Code(99) is not the code of a failure", retry.WithPolicy(retry.Policy{Codes: []codes.Code{99}})},
		{"Backoff.Base: -1ns is negative", backoff(retry.Backoff{Base: -1})},
		{"Backoff.Cap: -1ns is negative", backoff(retry.Backoff{Cap: -1})},
		{"Backoff.Cap: 1s is below the base of 2s", backoff(retry.Backoff{Base: 2 * time.Second, Cap: time.Second})},
		{"Backoff.Cap: 1ms is below the base of 100ms", backoff(retry.Backoff{Cap: time.Millisecond})},
		{"Backoff.Multiplier: 0.5 is not a number of at least 1", backoff(retry.Backoff{Multiplier: 0.5})},
		{"Backoff.Multiplier: NaN is not", backoff(retry.Backoff{Multiplier: math.NaN()})},
		{"Backoff.Multiplier: +Inf is not", backoff(retry.Backoff{Multiplier: math.Inf(1)})},
		{"Backoff.Jitter: jitter_9 is unknown", backoff(retry.Backoff{Jitter: 9})},
		{"Backoff.Immediate: no wait has no base", backoff(retry.Backoff{Immediate: true, Base: 1})},
		{`WithMethodPolicy: pattern "nonsense" is none of`, retry.WithMethodPolicy("nonsense", retry.Policy{})},
		{`WithMethodPolicy: pattern "/a.B/C": MaxAttempts: -1`, retry.WithMethodPolicy("/a.B/C", retry.Policy{MaxAttempts: -1})},
		{"service ledger.v1.LedgerService has no method Dedit", retry.WithMethodPolicy("/ledger.v1.LedgerService/Dedit", retry.Policy{})},
		{`WithMethodSafety: pattern "/a.B/"`, retry.WithMethodSafety("/a.B/", retry.SafetySafe)},
		{"safety_7 is unknown", retry.WithMethodSafety("*", 7)},
		{"WithBudget: MaxTokens: -1 is not between", retry.WithBudget(retry.Budget{MaxTokens: -1})},
		{"WithBudget: MaxTokens: 1001 is not between", retry.WithBudget(retry.Budget{MaxTokens: 1001})},
		{"WithBudget: MaxTokens: NaN is not between", retry.WithBudget(retry.Budget{MaxTokens: math.NaN()})},
		{"TokenRatio: 0.0001 is not a number of at least", retry.WithBudget(retry.Budget{TokenRatio: 0.0001})},
		{"TokenRatio: +Inf is not", retry.WithBudget(retry.Budget{TokenRatio: math.Inf(1)})},
		{"WithServiceConfig: not a service config in JSON", retry.WithServiceConfig("{")},
		{"WithFailover: no connection is given", retry.WithFailover()},
		{"WithFailover: connection 0 is nil", retry.WithFailover(nil)},
		{"WithFailover: connection 0 is nil", retry.WithFailover((*grpc.ClientConn)(nil))},
		{"WithSharedStore: there is no WithFailover", retry.WithSharedStore()},
		{"WithLogger: the logger is nil", retry.WithLogger(nil)},
		{"WithMeterProvider: the provider is nil", retry.WithMeterProvider(nil)},
		{"WithTracerProvider: the provider is nil", retry.WithTracerProvider(nil)},
		{"WithMeterProvider: the provider is nil", retry.WithMeterProvider((*sdkmetric.MeterProvider)(nil))},
		{"WithTracerProvider: the provider is nil", retry.WithTracerProvider((*sdktrace.TracerProvider)(nil))},
		{"WithOnRetry: the function is nil", retry.WithOnRetry(nil)},
		{"WithOnExhausted: the function is nil", retry.WithOnExhausted(nil)},
	} {
		t.Run(tt.want, func(t *testing.T) {
			i, err := retry.UnaryClientInterceptor(tt.opt)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want it to say %q", err, tt.want)
			}
			if i != nil {
				t.Error("there is an interceptor all the same")
			}
			if opts, err := retry.DialOptions(tt.opt); err == nil || opts != nil {
				t.Errorf("DialOptions = %v, %v", opts, err)
			}
		})
	}
}

func TestAllMistakesAreReportedAtOnce(t *testing.T) {
	_, err := retry.UnaryClientInterceptor(
		retry.WithPolicy(retry.Policy{MaxAttempts: -1, PerAttemptTimeout: -1}),
		retry.WithMethodPolicy("nonsense", retry.Policy{}),
		retry.WithOwner(""),
		retry.WithBudget(retry.Budget{MaxTokens: -1}),
		retry.WithServiceConfig("{"),
	)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{`WithPolicy: pattern "*": MaxAttempts: `, `WithPolicy: pattern "*": PerAttemptTimeout: `, "WithMethodPolicy: ", "WithOwner: ", "WithBudget: ", "WithServiceConfig: "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
}

func TestTheMostSpecificPolicyWins(t *testing.T) {
	opts := []retry.Option{
		retry.WithMethodPolicy("/a.B/C", retry.Policy{MaxAttempts: 4}),
		retry.WithPolicy(retry.Policy{MaxAttempts: 2}),
		retry.WithMethodPolicy("/a.B/*", retry.Policy{MaxAttempts: 3}),
	}
	for method, want := range map[string]int{"/a.B/C": 4, "/a.B/D": 3, "/x.Y/Z": 2} {
		bubble(t, method, func(t *testing.T) {
			s := answering(errDown)
			_ = newClient(t, s, opts...).callMethod(t.Context(), method)
			wantCalls(t, s, want)
		})
	}
}

func TestAPolicyIsKeptAsItWas(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		p := retry.Policy{Codes: []codes.Code{codes.Unavailable}}
		option := retry.WithPolicy(p)
		p.Codes[0] = codes.NotFound
		s := answering(errDown, nil)
		if err := newClient(t, s, option).call(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestClosedSetsHaveNames(t *testing.T) {
	seen := make(map[string]bool)
	check := func(name, fallback string) {
		if name == fallback || seen[name] || name != strings.ToUpper(name) {
			t.Errorf("%q is no name of its own", name)
		}
		seen[name] = true
	}
	for r := retry.ReasonMaxAttempts; r <= retry.ReasonOwnedUpstream; r++ {
		check(r.String(), "reason_")
		if want := r != retry.ReasonNotRetrySafe && r != retry.ReasonOwnedUpstream; r.BudgetExhausted() != want {
			t.Errorf("%v.BudgetExhausted() = %t", r, !want)
		}
	}
	for j := retry.JitterFull; j <= retry.JitterNone; j++ {
		check(j.String(), "jitter_")
	}
	for s := retry.SafetyUnsafe; s <= retry.SafetyKeyed; s++ {
		check(s.String(), "safety_")
	}
	for got, want := range map[string]string{
		retry.Reason(0).String(): "reason_0", retry.Reason(8).String(): "reason_8",
		retry.Jitter(4).String(): "jitter_4", retry.Safety(3).String(): "safety_3",
	} {
		if got != want {
			t.Errorf("String() = %q, want %q", got, want)
		}
	}
	if retry.Reason(0).BudgetExhausted() || retry.Reason(8).BudgetExhausted() {
		t.Error("an unknown reason is called exhausted")
	}
}
