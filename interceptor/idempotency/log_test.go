package idempotency_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/interceptor/idempotency"
)

func TestWhyAScopeCannotBeToldIsLoggedAndNotShown(t *testing.T) {
	for _, tt := range []struct {
		err    error
		code   codes.Code
		logged bool
	}{
		{errors.New("no subject in the context"), codes.Internal, true},
		{status.Error(codes.Unauthenticated, "who are you"), codes.Unauthenticated, false},
	} {
		var b bytes.Buffer
		s := newServer(t, dedup.NewMemory(),
			idempotency.WithLogger(slog.New(slog.NewTextHandler(&b, nil))),
			idempotency.WithScope(func(context.Context) (string, error) { return "", tt.err }))
		_, _, err := intercept(t.Context(), s, "secret-key", nil)
		if status.Code(err) != tt.code || strings.Contains(err.Error(), "subject") {
			t.Errorf("%v: the caller is told %v", tt.err, err)
		}
		got := b.String()
		if logged := strings.Contains(got, "WithScope: no subject in the context") && strings.Contains(got, place); logged != tt.logged || strings.Contains(got, "secret") {
			t.Errorf("%v: logged %q", tt.err, got)
		}
		s.Close()
	}
}
