package idempotency

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/retrysafe/retrysafe/interceptor/internal/wire"
)

// replayHeaders is the set of names that may be recorded and replayed, in
// lower case.
type replayHeaders map[string]struct{}

func newReplayHeaders(names []string) (replayHeaders, error) {
	if len(names) == 0 {
		return nil, nil
	}
	allowed := make(replayHeaders, len(names))
	var errs []error
	for _, name := range names {
		lower := strings.ToLower(name)
		if err := checkReplayHeader(lower); err != nil {
			errs = append(errs, fmt.Errorf("idempotency: WithReplayHeaders: %q %w", name, err))
		}
		allowed[lower] = struct{}{}
	}
	return allowed, errors.Join(errs...)
}

func checkReplayHeader(name string) error {
	switch name {
	case "authorization", "proxy-authorization", "cookie", "set-cookie":
		return errors.New("is a credential")
	case wire.KeyHeader, wire.OwnerHeader, wire.ReplayedHeader:
		return errors.New("belongs to this suite")
	case "content-type", "user-agent", "te", "connection":
		return errors.New("belongs to gRPC")
	}
	if strings.HasPrefix(name, "grpc-") || strings.HasPrefix(name, ":") {
		return errors.New("belongs to gRPC")
	}
	if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
		return errors.New("is not a metadata name")
	}
	return nil
}

// pick returns the allowed part of md, nil where there is none. It shares the
// values.
func (h replayHeaders) pick(md map[string][]string) metadata.MD {
	if len(h) == 0 {
		return nil
	}
	var picked metadata.MD
	for name, values := range md {
		if _, ok := h[name]; !ok || len(values) == 0 {
			continue
		}
		if picked == nil {
			picked = make(metadata.MD)
		}
		picked[name] = values
	}
	return picked
}
