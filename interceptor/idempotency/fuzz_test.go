package idempotency_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/interceptor/idempotency"
	"github.com/retrysafe/retrysafe/interceptor/internal/wire"
)

// FuzzKey sends any key, and a second one where twice says so: the call is
// refused as invalid, or runs once for two attempts.
func FuzzKey(f *testing.F) {
	for _, k := range []string{"order-42", "", " ", "a b", "\x00", "\xff", "é", strings.Repeat("k", 255), strings.Repeat("k", 256)} {
		f.Add(k, false)
	}
	f.Add("order-42", true)
	f.Fuzz(func(t *testing.T, k string, twice bool) {
		md := metadata.MD{idempotency.MetadataKey: {k}}
		if twice {
			md.Append(idempotency.MetadataKey, k)
		}
		valid := !twice && len(k) >= 1 && len(k) <= 255 && strings.IndexFunc(k, func(r rune) bool { return r < '!' || r > '~' }) < 0
		s := newServer(t, dedup.NewMemory())
		defer s.Close()
		runs := 0
		for range 2 {
			_, err := s.Intercept(metadata.NewIncomingContext(t.Context(), md), request("a"), &grpc.UnaryServerInfo{FullMethod: place},
				func(ctx context.Context, _ any) (any, error) {
					runs++
					if got, _ := idempotency.KeyFromContext(ctx); got != k {
						t.Errorf("the handler finds %q", got)
					}
					return &errdetails.ResourceInfo{}, nil
				})
			if valid {
				if err != nil {
					t.Fatal(err)
				}
				continue
			}
			wantReason(t, err, codes.InvalidArgument, wire.ReasonKeyInvalid)
			if len(k) > 4 && strings.Contains(err.Error(), k) {
				t.Error("the error shows the key")
			}
		}
		if valid != (runs == 1) || runs > 1 {
			t.Errorf("%d runs", runs)
		}
	})
}

// FuzzReplay replays any outcome that a store may hold: it is given to the
// caller as it is, or it is unreadable, and the handler never runs.
func FuzzReplay(f *testing.F) {
	value, err := proto.Marshal(&errdetails.ResourceInfo{Owner: "o"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint32(0), "", "google.rpc.ResourceInfo", value, "etag", "v1")
	f.Add(uint32(0), "", "google.rpc.RequestInfo", value, "set-cookie", "s")
	f.Add(uint32(0), "message of an OK", "", []byte{0xff}, "", "")
	f.Add(uint32(5), "not found", "type.googleapis.com/google.rpc.ErrorInfo", []byte{0x0a, 1, 'r'}, "sum-bin", "\x00\xff")
	f.Add(uint32(17), "\xff", "/", []byte{}, "idempotency-replayed", "false")
	f.Add(uint32(1<<32-1), "", "..", []byte(nil), "grpc-status", "0")
	f.Fuzz(func(t *testing.T, code uint32, message, typ string, value []byte, name, header string) {
		store := dedup.NewMemory()
		out := dedup.Outcome{Code: codes.Code(code), Message: message, Response: dedup.Payload{Type: typ, Value: value}}
		out.Details = []dedup.Payload{out.Response}
		out.Header = map[string][]string{name: {header, header}}
		out.Trailer = out.Header
		record(t, store, request("a"), out)
		s := newServer(t, store, idempotency.WithReplayHeaders("etag", "sum-bin"))
		defer s.Close()
		stream, resp, err := intercept(t.Context(), s, "k1", nil) // to run it would panic
		if len(stream.trailer) > 2 || stream.header.Get("set-cookie") != nil || stream.header.Get("grpc-status") != nil {
			t.Errorf("header %v, trailer %v", stream.header, stream.trailer)
		}
		reason, _ := wire.ReasonOf(err)
		if reason != wire.ReasonRecordUnreadable && !isMarked(stream.header) {
			t.Errorf("the replay is not marked: %v", stream.header)
		}
		switch {
		case code != 0:
			if st := status.Convert(err); err == nil || st.Code() != codes.Code(code) || st.Message() != message {
				t.Errorf("replayed %v", err)
			}
		case err != nil:
			if reason != wire.ReasonRecordUnreadable || resp != nil {
				t.Errorf("replayed %v, %v", resp, err)
			}
		case typ != "google.rpc.ResourceInfo":
			t.Errorf("replayed a %q: %v", typ, resp)
		}
	})
}
