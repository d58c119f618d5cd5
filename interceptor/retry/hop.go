package retry

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/retrysafe/retrysafe/interceptor/internal/wire"
)

// hop is what a handler's context says of the call that it answers.
type hop struct {
	owner string
	// exhausted has bit c set where a call of the handler's was exhausted with
	// code c.
	exhausted atomic.Uint32
}

type hopKey struct{}

// OwnerFromContext returns the name of the layer that owns the retries of the
// call that a handler answers, as its client named it, or false where it named
// none. It needs [UnaryServerInterceptor].
func OwnerFromContext(ctx context.Context) (string, bool) {
	h, ok := ctx.Value(hopKey{}).(*hop)
	if !ok || h.owner == "" {
		return "", false
	}
	return h.owner, true
}

func ownerFrom(md metadata.MD) string {
	if owners := md.Get(wire.OwnerHeader); len(owners) == 1 && checkOwner(owners[0]) == nil {
		return owners[0]
	}
	return ""
}

// noteExhausted tells the server interceptor above that a call which a handler
// made with ctx was exhausted.
func noteExhausted(ctx context.Context, ex *ExhaustedError) {
	if ex.Reason == ReasonOwnedUpstream {
		return
	}
	if h, ok := ctx.Value(hopKey{}).(*hop); ok {
		h.exhausted.Or(1 << uint32(codeOf(ex)))
	}
}

// saw says whether a call of the handler's was exhausted with that code.
func (h *hop) saw(code codes.Code) bool { return h.exhausted.Load()&(1<<uint32(code)) != 0 }
