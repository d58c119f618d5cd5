package key_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
	"google.golang.org/grpc/metadata"

	"github.com/retrysafe/retrysafe/interceptor/internal/key"
)

func TestValidateTakesVisibleASCIIOnly(t *testing.T) {
	for _, tt := range []struct {
		name, key string
		ok        bool
	}{
		{"one byte", "a", true},
		{"first and last visible byte", "!~", true},
		{"as long as may be", strings.Repeat("k", key.MaxLen), true},
		{"empty", "", false},
		{"a byte too long", strings.Repeat("k", key.MaxLen+1), false},
		{"a space", "order 42", false},
		{"a newline at the end", "order-42\n", false},
		{"NUL", "order\x0042", false},
		{"DEL", "order\x7f", false},
		{"UTF-8", "commande-é", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := key.Validate(tt.key)
			if tt.ok != (err == nil) {
				t.Fatalf("Validate = %v", err)
			}
			if err == nil {
				return
			}
			if !errors.Is(err, key.ErrInvalid) {
				t.Errorf("%v is not ErrInvalid", err)
			}
			if len(tt.key) > 3 && strings.Contains(err.Error(), tt.key) {
				t.Errorf("the message shows the key: %v", err)
			}
		})
	}
}

func TestNewMakesUUIDv7InOrderOfTime(t *testing.T) {
	t.Run("New", func(t *testing.T) { makesUUIDv7(t, key.New) })
	t.Run("Maker", func(t *testing.T) { makesUUIDv7(t, new(key.Maker).New) })
}

func makesUUIDv7(t *testing.T, newKey func() string) {
	synctest.Test(t, func(t *testing.T) {
		seen := make(map[string]bool)
		last := ""
		for range 1000 {
			k := newKey()
			u, err := uuid.Parse(k)
			if err != nil || u.Version() != 7 || u.Variant() != uuid.RFC4122 || u.String() != k {
				t.Fatalf("New() = a text that is no canonical UUIDv7: %v", err)
			}
			if seen[k] {
				t.Fatal("New() made a key twice")
			}
			seen[k] = true
			if k[:13] < last {
				t.Fatal("New() went back in time")
			}
			last = k[:13]
		}
	})
}

func TestAMakersKeysStayAsTheyWere(t *testing.T) {
	var m key.Maker
	var keys, copies []string
	for range 100 {
		k := m.New()
		keys, copies = append(keys, k), append(copies, strings.Clone(k))
	}
	if !slices.Equal(keys, copies) {
		t.Error("a key changed when others were made")
	}
}

func TestOutgoingFindsTheCallersKey(t *testing.T) {
	bg := context.Background()
	inMD := func(ctx context.Context, values ...string) context.Context {
		for _, v := range values {
			ctx = metadata.AppendToOutgoingContext(ctx, "Idempotency-Key", v)
		}
		return ctx
	}
	for _, tt := range []struct {
		name       string
		ctx        context.Context
		key        string
		inMetadata bool
		ok, bad    bool
	}{
		{name: "nowhere", ctx: bg},
		{name: "in the context", ctx: key.WithOutgoing(bg, "k1"), key: "k1", ok: true},
		{name: "in metadata", ctx: inMD(bg, "k1"), key: "k1", inMetadata: true, ok: true},
		{name: "the same in both", ctx: inMD(key.WithOutgoing(bg, "k1"), "k1"), key: "k1", inMetadata: true, ok: true},
		{name: "different in both", ctx: inMD(key.WithOutgoing(bg, "k1"), "k2"), bad: true},
		{name: "twice in metadata", ctx: inMD(bg, "k1", "k1"), bad: true},
		{name: "malformed in the context", ctx: key.WithOutgoing(bg, "k 1"), bad: true},
		{name: "empty in the context", ctx: key.WithOutgoing(bg, ""), bad: true},
		{name: "malformed in metadata", ctx: inMD(bg, ""), bad: true},
		{name: "an executing operation's key does not travel on", ctx: key.WithIncoming(bg, "k1")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k, inMetadata, ok, err := key.Outgoing(tt.ctx)
			if tt.bad {
				if !errors.Is(err, key.ErrInvalid) || k != "" || ok {
					t.Fatalf("Outgoing = %q, %t, %v, want ErrInvalid alone", k, ok, err)
				}
				return
			}
			if err != nil || k != tt.key || ok != tt.ok || inMetadata != tt.inMetadata {
				t.Errorf("Outgoing = %q, %t, %t, %v", k, inMetadata, ok, err)
			}
		})
	}
}

// TestAContextDoesNotShowItsKey prints contexts that hold a key, as a log might.
func TestAContextDoesNotShowItsKey(t *testing.T) {
	const secret = "secret-key"
	for name, ctx := range map[string]context.Context{
		"outgoing": key.WithOutgoing(context.Background(), secret),
		"incoming": key.WithIncoming(context.Background(), secret),
	} {
		below := context.WithoutCancel(ctx)
		var out bytes.Buffer
		for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
			slog.New(h).Info("x", "ctx", ctx, "below", below)
		}
		fmt.Fprintf(&out, "%v %+v %#v %s %v %+v %#v %s", ctx, ctx, ctx, ctx, below, below, below, below)
		if strings.Contains(out.String(), secret) {
			t.Errorf("%s: %s", name, &out)
		}
	}
}

func TestFromIncomingMetadataTakesExactlyOne(t *testing.T) {
	for _, tt := range []struct {
		name    string
		values  []string
		ok, bad bool
	}{
		{name: "none"},
		{name: "one", values: []string{"k1"}, ok: true},
		{name: "two", values: []string{"k1", "k2"}, bad: true},
		{name: "the same twice", values: []string{"k1", "k1"}, bad: true},
		{name: "empty", values: []string{""}, bad: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx := metadata.NewIncomingContext(context.Background(), metadata.MD{"idempotency-key": tt.values})
			_, ok, err := key.FromIncomingMetadata(ctx)
			if bad := errors.Is(err, key.ErrInvalid); bad != tt.bad || !bad && ok != tt.ok {
				t.Errorf("FromIncomingMetadata = %t, %v", ok, err)
			}
		})
	}
}

func FuzzValidate(f *testing.F) {
	for _, k := range []string{"order-42", "", " ", "\x00", "\xff", strings.Repeat("k", 256)} {
		f.Add(k)
	}
	f.Fuzz(func(t *testing.T, k string) {
		valid := len(k) >= 1 && len(k) <= 255 && strings.IndexFunc(k, func(r rune) bool { return r < '!' || r > '~' }) < 0
		if (key.Validate(k) == nil) != valid {
			t.Errorf("Validate(%q) = %v", k, key.Validate(k))
		}
	})
}

func BenchmarkNew(b *testing.B) {
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			key.New()
		}
	})
}
