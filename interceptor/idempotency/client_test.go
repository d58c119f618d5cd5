package idempotency_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/retrysafe/retrysafe/interceptor/idempotency"
	"github.com/retrysafe/retrysafe/interceptor/internal/wire"
)

// sent makes a call through a client interceptor and returns the keys that it
// would send.
func sent(t *testing.T, ctx context.Context, method string, req any, opts ...idempotency.ClientOption) (keys []string, called bool, err error) {
	t.Helper()
	if registered != nil {
		t.Fatal(registered)
	}
	client, err := idempotency.UnaryClientInterceptor(opts...)
	if err != nil {
		t.Fatal(err)
	}
	err = client(ctx, method, req, nil, nil, func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
		called = true
		md, _ := metadata.FromOutgoingContext(ctx)
		keys = md.Get(idempotency.MetadataKey)
		return nil
	})
	return keys, called, err
}

func TestAClientSendsTheKeyThatTheCallerChose(t *testing.T) {
	bg := t.Context()
	none, id := new(errdetails.RequestInfo), &errdetails.RequestInfo{RequestId: "k1"}
	for _, tt := range []struct {
		name   string
		ctx    context.Context
		method string
		req    *errdetails.RequestInfo
	}{
		{"from WithKey", idempotency.WithKey(bg, "k1"), place, none},
		{"from metadata", withKey(t, "k1"), place, none},
		{"from both", idempotency.WithKey(withKey(t, "k1"), "k1"), place, none},
		{"from the request", bg, named, id},
		{"from the request and WithKey", idempotency.WithKey(bg, "k1"), named, id},
		{"from WithKey, the field being empty", idempotency.WithKey(bg, "k1"), named, none},
		{"of a method that says nothing", idempotency.WithKey(bg, "k1"), look, none},
		{"of a method that is not known", idempotency.WithKey(bg, "k1"), "/unknown.v1.Service/Do", none},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if keys, _, err := sent(t, tt.ctx, tt.method, tt.req); err != nil || !slices.Equal(keys, []string{"k1"}) {
				t.Errorf("sent %q, %v", keys, err)
			}
		})
	}
}

func TestAClientMakesKeysForKeyedMethodsOnly(t *testing.T) {
	for _, tt := range []struct {
		name   string
		method string
		opts   []idempotency.ClientOption
		want   bool
	}{
		{name: "required by the .proto", method: place, want: true},
		{name: "optional by the .proto", method: offer, want: true},
		{name: "required, the field being empty", method: named, want: true},
		{name: "nothing said", method: look},
		{name: "not known", method: "/unknown.v1.Service/Do"},
		{name: "optional by code", method: look, want: true,
			opts: []idempotency.ClientOption{idempotency.WithMethodKey(look, idempotency.KeyOptional), nil}},
		{name: "required by code for all", method: "/unknown.v1.Service/Do", want: true,
			opts: []idempotency.ClientOption{idempotency.WithMethodKey("*", idempotency.KeyRequired)}},
		{name: "none by code", method: place,
			opts: []idempotency.ClientOption{idempotency.WithMethodKey(place, idempotency.KeyNone)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, _, err := sent(t, t.Context(), tt.method, request("a"), tt.opts...)
			b, _, errB := sent(t, t.Context(), tt.method, request("a"), tt.opts...)
			if err != nil || errB != nil {
				t.Fatal(err, errB)
			}
			if !tt.want {
				if len(a) != 0 {
					t.Errorf("a key was sent")
				}
				return
			}
			if len(a) != 1 || len(b) != 1 || a[0] == b[0] {
				t.Fatalf("sent %q and %q", a, b)
			}
			if u, err := uuid.Parse(a[0]); err != nil || u.Version() != 7 {
				t.Errorf("sent %q: %v", a, err)
			}
		})
	}
}

func TestABadKeyIsNotSent(t *testing.T) {
	bg := t.Context()
	for _, tt := range []struct {
		name string
		ctx  context.Context
		req  *errdetails.RequestInfo
	}{
		{"malformed", idempotency.WithKey(bg, "secret key"), request("a")},
		{"empty", idempotency.WithKey(bg, ""), request("a")},
		{"malformed in metadata", withKey(t, "secret key"), request("a")},
		{"twice", metadata.AppendToOutgoingContext(withKey(t, "secret"), idempotency.MetadataKey, "k"), request("a")},
		{"context and metadata differ", idempotency.WithKey(withKey(t, "secret"), "k1"), request("a")},
		{"context and request differ", idempotency.WithKey(bg, "secret"), &errdetails.RequestInfo{RequestId: "k2"}},
		{"metadata and request differ", withKey(t, "secret"), &errdetails.RequestInfo{RequestId: "k2"}},
		{"malformed in the request", bg, &errdetails.RequestInfo{RequestId: "secret key"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, called, err := sent(t, tt.ctx, named, tt.req)
			wantReason(t, err, codes.InvalidArgument, wire.ReasonKeyInvalid)
			if called || strings.Contains(err.Error(), "secret") {
				t.Errorf("called: %t, error: %v", called, err)
			}
		})
	}
}

func TestKeyFromContext(t *testing.T) {
	if k, ok := idempotency.KeyFromContext(t.Context()); ok {
		t.Errorf("KeyFromContext = %q", k)
	}
	if k, ok := idempotency.KeyFromContext(idempotency.WithKey(t.Context(), "k1")); !ok || k != "k1" {
		t.Errorf("KeyFromContext = %q, %t", k, ok)
	}
}

func TestNewKeyIsAUUIDv7(t *testing.T) {
	u, err := uuid.Parse(idempotency.NewKey())
	if err != nil || u.Version() != 7 {
		t.Errorf("NewKey = %v, %v", u, err)
	}
}
