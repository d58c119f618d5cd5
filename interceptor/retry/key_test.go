package retry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrysafe/retrysafe/interceptor/idempotency"
	"github.com/retrysafe/retrysafe/interceptor/internal/wire"
	"github.com/retrysafe/retrysafe/interceptor/retry"
)

// oneKey returns the key that every attempt carries exactly once.
func oneKey(t *testing.T, s *server) string {
	t.Helper()
	first := ""
	for i, keys := range s.values("idempotency-key") {
		if len(keys) != 1 {
			t.Fatalf("attempt %d carries %d keys, want 1", i+1, len(keys))
		}
		if first == "" {
			first = keys[0]
		}
		if keys[0] != first {
			t.Fatalf("attempt %d carries another key than the first", i+1)
		}
	}
	return first
}

func TestAllAttemptsCarryOneKey(t *testing.T) {
	var once, twice = idempotency.WithKey, metadata.AppendToOutgoingContext
	for _, tt := range []struct {
		name string
		ctx  func(context.Context) context.Context
		want string // "": a new one
	}{
		{"a new one", func(ctx context.Context) context.Context { return ctx }, ""},
		{"the caller's, in the context", func(ctx context.Context) context.Context { return once(ctx, "order-42") }, "order-42"},
		{"the caller's, in metadata", func(ctx context.Context) context.Context { return twice(ctx, "Idempotency-Key", "order-42") }, "order-42"},
		{"the caller's, in both", func(ctx context.Context) context.Context {
			return twice(once(ctx, "order-42"), "idempotency-key", "order-42")
		}, "order-42"},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			s := answering(errDown)
			err := newClient(t, s, keyed).call(tt.ctx(t.Context()))
			wantCalls(t, s, 3)
			got := oneKey(t, s)
			if tt.want != "" && got != tt.want || got == "" {
				t.Errorf("the key is %q, want %q", got, tt.want)
			}
			if ex := exhausted(t, err, retry.ReasonMaxAttempts); ex.IdempotencyKey() != got {
				t.Errorf("IdempotencyKey() = %q, want what was sent, %q", ex.IdempotencyKey(), got)
			}
			if strings.Contains(err.Error(), got) {
				t.Error("the error shows the key")
			}
		})
	}
}

func TestNoFormatOfTheErrorShowsTheKey(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		err := newClient(t, answering(errDown), keyed).call(idempotency.WithKey(t.Context(), "order-42"))
		ex := exhausted(t, err, retry.ReasonMaxAttempts)
		inJSON, jsonErr := json.Marshal(ex)
		if jsonErr != nil {
			t.Fatal(jsonErr)
		}
		shown := []string{string(inJSON)}
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
			for _, v := range []any{ex, *ex, struct{ Err any }{ex}, struct{ Err any }{*ex}, []error{ex}} {
				shown = append(shown, fmt.Sprintf(format, v))
			}
		}
		for _, s := range shown {
			if strings.Contains(s, "order-42") || strings.Contains(s, "6f726465722d3432") {
				t.Errorf("shows the key: %s", s)
			}
		}
	})
}

func TestCallsHaveKeysOfTheirOwn(t *testing.T) {
	s := answering(nil)
	c := newClient(t, s, keyed)
	_, _ = c.call(t.Context()), c.call(t.Context())
	keys := s.values("idempotency-key")
	if keys[0][0] == keys[1][0] {
		t.Error("two calls carry one key")
	}
}

func TestAnInvalidKeyFailsBeforeAnythingIsSent(t *testing.T) {
	for name, ctx := range map[string]context.Context{
		"malformed":       idempotency.WithKey(context.Background(), "order 42"),
		"empty":           idempotency.WithKey(context.Background(), ""),
		"too long":        idempotency.WithKey(context.Background(), strings.Repeat("k", 256)),
		"twice":           metadata.AppendToOutgoingContext(context.Background(), "idempotency-key", "a", "idempotency-key", "a"),
		"two of them":     metadata.AppendToOutgoingContext(idempotency.WithKey(context.Background(), "a"), "idempotency-key", "b"),
		"malformed in md": metadata.AppendToOutgoingContext(context.Background(), "idempotency-key", "\x01"),
	} {
		for _, safety := range []retry.Safety{retry.SafetyUnsafe, retry.SafetySafe, retry.SafetyKeyed} {
			t.Run(name+"/"+safety.String(), func(t *testing.T) {
				s := answering(nil)
				err := newClient(t, s, retry.WithMethodSafety("*", safety)).call(ctx)
				wantCalls(t, s, 0)
				wantCode(t, err, codes.InvalidArgument)
				if reason, _ := wire.ReasonOf(err); reason != wire.ReasonKeyInvalid {
					t.Errorf("reason is %q", reason)
				}
			})
		}
	}
}

func TestACallersKeyIsSentWhateverTheClass(t *testing.T) {
	for _, safety := range []retry.Safety{retry.SafetyUnsafe, retry.SafetySafe} {
		bubble(t, safety.String(), func(t *testing.T) {
			s := answering(errDown)
			err := newClient(t, s, retry.WithMethodSafety("*", safety)).call(idempotency.WithKey(t.Context(), "order-42"))
			if got := oneKey(t, s); got != "order-42" {
				t.Errorf("the key is %q", got)
			}
			if safety == retry.SafetyUnsafe {
				wantCalls(t, s, 1)
				exhausted(t, err, retry.ReasonNotRetrySafe)
			}
		})
	}
}

func TestASafeCallCarriesNoKey(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := answering(errDown)
		_ = newClient(t, s).call(t.Context())
		for _, keys := range s.values("idempotency-key") {
			if len(keys) > 0 {
				t.Error("a Safe call carries a key")
			}
		}
	})
}

// The two client interceptors work in either order.
func TestEitherOrderOfTheClientInterceptors(t *testing.T) {
	keys, err := idempotency.UnaryClientInterceptor(idempotency.WithMethodKey("*", idempotency.KeyRequired))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		chain func(retries, keys grpc.UnaryClientInterceptor) []grpc.UnaryClientInterceptor
	}{
		{"retry first", func(r, k grpc.UnaryClientInterceptor) []grpc.UnaryClientInterceptor {
			return []grpc.UnaryClientInterceptor{r, k}
		}},
		{"idempotency first", func(r, k grpc.UnaryClientInterceptor) []grpc.UnaryClientInterceptor {
			return []grpc.UnaryClientInterceptor{k, r}
		}},
	} {
		for _, own := range []string{"", "order-42"} {
			bubble(t, tt.name+"/"+own, func(t *testing.T) {
				s := answering(errDown)
				ctx := t.Context()
				if own != "" {
					ctx = idempotency.WithKey(ctx, own)
				}
				call := chained(s.invoke, tt.chain(newInterceptor(t, keyed), keys)...)
				_ = call(ctx, method, new(wrapperspb.StringValue), new(wrapperspb.StringValue), nil)
				wantCalls(t, s, 3)
				if got := oneKey(t, s); own != "" && got != own {
					t.Errorf("the key is %q, want %q", got, own)
				}
			})
		}
	}
}

// chained runs interceptors in order in front of last, as a connection does.
func chained(last grpc.UnaryInvoker, all ...grpc.UnaryClientInterceptor) grpc.UnaryInvoker {
	if len(all) == 0 {
		return last
	}
	rest := chained(last, all[1:]...)
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
		return all[0](ctx, method, req, reply, cc, rest, opts...)
	}
}
