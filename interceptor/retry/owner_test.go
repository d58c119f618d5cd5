package retry_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrysafe/retrysafe/interceptor/idempotency"
	"github.com/retrysafe/retrysafe/interceptor/retry"
)

func equal(a, b [][]string) bool {
	return slices.EqualFunc(a, b, func(a, b []string) bool { return slices.Equal(a, b) })
}

func TestAttemptsAreCountedAndOwned(t *testing.T) {
	for _, tt := range []struct {
		name   string
		safety retry.Safety
		owners [][]string
	}{
		{"a Keyed call names its owner at once", retry.SafetyKeyed, [][]string{{"checkout"}, {"checkout"}, {"checkout"}}},
		{"a Safe call's first attempt is unchanged", retry.SafetySafe, [][]string{nil, {"checkout"}, {"checkout"}}},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			s := answering(errDown)
			_ = newClient(t, s, retry.WithMethodSafety("*", tt.safety), retry.WithOwner("checkout")).call(t.Context())
			if got := s.values("retry-owner"); !equal(got, tt.owners) {
				t.Errorf("owners are %q, want %q", got, tt.owners)
			}
			if got := s.values("grpc-previous-rpc-attempts"); !equal(got, [][]string{nil, {"1"}, {"2"}}) {
				t.Errorf("counts are %q", got)
			}
		})
	}
}

// A handler that passes its incoming metadata on must not make its own hop
// look as if two layers retried it.
func TestAnotherHopsMetadataIsReplaced(t *testing.T) {
	for _, safety := range []retry.Safety{retry.SafetyKeyed, retry.SafetySafe} {
		bubble(t, safety.String(), func(t *testing.T) {
			s := answering(errDown)
			ctx := metadata.AppendToOutgoingContext(t.Context(), "Retry-Owner", "upstream", "grpc-previous-rpc-attempts", "7", "other", "kept")
			_ = newClient(t, s, retry.WithMethodSafety("*", safety)).call(ctx)
			if got := s.values("retry-owner")[1:]; !equal(got, [][]string{{"retrysafe"}, {"retrysafe"}}) {
				t.Errorf("owners are %q", got)
			}
			if got := s.values("grpc-previous-rpc-attempts")[1:]; !equal(got, [][]string{{"1"}, {"2"}}) {
				t.Errorf("counts are %q", got)
			}
			if got := s.values("other"); !equal(got, [][]string{{"kept"}, {"kept"}, {"kept"}}) {
				t.Errorf("the caller's own metadata is %q", got)
			}
		})
	}
}

func TestASecondInterceptorMakesOneAttempt(t *testing.T) {
	for _, safety := range []retry.Safety{retry.SafetyKeyed, retry.SafetySafe} {
		bubble(t, safety.String(), func(t *testing.T) {
			class := retry.WithMethodSafety("*", safety)
			s := answering(errDown)
			call := chained(s.invoke, newInterceptor(t, class), newInterceptor(t, class), newInterceptor(t, class))
			err := call(t.Context(), method, new(wrapperspb.StringValue), new(wrapperspb.StringValue), nil)
			wantCalls(t, s, 3)
			exhausted(t, err, retry.ReasonMaxAttempts)
			if safety == retry.SafetyKeyed {
				oneKey(t, s)
			}
			if got := s.values("retry-owner")[2]; len(got) != 1 {
				t.Errorf("owners are %q, want one", got)
			}
		})
	}
}

func TestDisableHoldsForASecondInterceptorToo(t *testing.T) {
	s := answering(errDown)
	safe := retry.WithMethodSafety("*", retry.SafetySafe)
	call := chained(s.invoke, newInterceptor(t, safe), newInterceptor(t, safe))
	wantCode(t, call(t.Context(), method, nil, nil, nil, retry.Disable()), codes.Unavailable)
	wantCalls(t, s, 1)
}

func TestCallsUnderOwnMakeOneAttempt(t *testing.T) {
	for _, safety := range []retry.Safety{retry.SafetyKeyed, retry.SafetySafe, retry.SafetyUnsafe} {
		t.Run(safety.String(), func(t *testing.T) {
			s := answering(errDown)
			ctx := retry.Own(idempotency.WithKey(t.Context(), "order-42"), "orchestrator")
			err := newClient(t, s, retry.WithMethodSafety("*", safety)).call(ctx)
			wantCalls(t, s, 1)
			wantCode(t, err, codes.Unavailable)
			ex := exhausted(t, err, retry.ReasonOwnedUpstream)
			if ex.Reason.BudgetExhausted() {
				t.Error("BudgetExhausted is true")
			}
			if got := s.values("retry-owner")[0]; !slices.Equal(got, []string{"orchestrator"}) {
				t.Errorf("owner is %q", got)
			}
			if oneKey(t, s) != "order-42" {
				t.Error("the caller's key is not sent")
			}
		})
	}
}

// A key of its own for each round would make each round a new operation.
func TestUnderOwnNoKeyIsMade(t *testing.T) {
	s := answering(nil)
	if err := newClient(t, s, keyed).call(retry.Own(t.Context(), "orchestrator")); err != nil {
		t.Fatal(err)
	}
	if got := s.values("idempotency-key")[0]; len(got) != 0 {
		t.Error("a key was made")
	}
}

func TestAnOwnersNameIsChecked(t *testing.T) {
	for _, name := range []string{"", "a b", "caf\u00e9", "a\n", strings.Repeat("a", 129)} {
		s := answering(nil)
		wantCode(t, newClient(t, s).call(retry.Own(t.Context(), name)), codes.InvalidArgument)
		wantCalls(t, s, 0)
		if _, err := retry.UnaryClientInterceptor(retry.WithOwner(name)); err == nil || !strings.Contains(err.Error(), "WithOwner: ") {
			t.Errorf("WithOwner(%q): %v", name, err)
		}
	}
}

func TestAnInterceptorMayServeManyConnections(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		intercept := newInterceptor(t, retry.WithMethodSafety("*", retry.SafetySafe), aTenth, retry.WithPolicy(immediate))
		first, second := dialed(t, "passthrough:///first"), dialed(t, "passthrough:///second")
		call := func(cc *grpc.ClientConn) (*server, error) {
			s := answering(errDown)
			return s, intercept(context.Background(), method, nil, nil, cc, s.invoke)
		}
		s, err := call(first)
		exhausted(t, err, retry.ReasonBudget)
		wantCalls(t, s, 5)
		s, err = call(first)
		exhausted(t, err, retry.ReasonBudget)
		wantCalls(t, s, 1) // its tokens are used up
		s, err = call(second)
		exhausted(t, err, retry.ReasonBudget)
		wantCalls(t, s, 5) // another target's are not
	})
}
