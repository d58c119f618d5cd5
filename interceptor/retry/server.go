package retry

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/retrysafe/retrysafe/interceptor/internal/wire"
)

// UnaryServerInterceptor returns an interceptor that keeps each hop to one
// owner of retries. Chain it first.
//
//   - It puts the owner that the client names into the context: see
//     [OwnerFromContext].
//   - It sees retry layers that know nothing of the owner, such as a proxy's
//     or a second library's. It warns once for each peer and counts them, or
//     refuses such calls: see [WithRejectForeign].
//   - Where the handler fails because a call of its own was exhausted, it asks
//     the client not to retry (gRFC A6's pushback of -1): the owner of the hop
//     below has already made all the attempts that are worth making. So three
//     hops of three attempts cost 3 at the failing hop, not 27. The handler
//     returns the [ExhaustedError], wrapped or not, or another error with the
//     same code.
//
// Of the options, WithLogger, WithMeterProvider and WithRejectForeign are for
// servers. The error reports every mistake in them.
func UnaryServerInterceptor(opts ...Option) (grpc.UnaryServerInterceptor, error) {
	var c config
	c.apply(opts)
	c.refuseClientOptions()
	s := &server{reject: c.rejectForeign, peers: peers{logger: c.logger}}
	s.foreign = c.newForeignCounter()
	if err := c.failed(); err != nil {
		return nil, err
	}
	return s.intercept, nil
}

// server is one server interceptor.
type server struct {
	reject  bool
	peers   peers
	foreign foreignCounter
}

func (s *server) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	h := &hop{owner: ownerFrom(md)}
	if layer := foreignLayer(md); layer != "" {
		s.foreign.add(ctx, info.FullMethod, layer)
		if s.reject {
			return nil, wire.Error(wire.ReasonMultipleOwners, "another layer than the owner retries this hop: it sends "+layer)
		}
		s.peers.warn(ctx, info.FullMethod, h.owner, layer)
	}
	resp, err := handler(context.WithValue(ctx, hopKey{}, h), req)
	if err != nil && h.exhaustedBelow(err) {
		// It fails where the handler has ended the stream itself, and then there
		// is nobody to tell.
		_ = grpc.SetTrailer(ctx, metadata.Pairs(wire.PushbackTrailer, wire.StopValue))
	}
	return resp, err
}

// exhaustedBelow says whether err is, or stands for, a call of the handler's
// own whose owner has given up.
func (h *hop) exhaustedBelow(err error) bool {
	var ex *ExhaustedError
	if errors.As(err, &ex) {
		return ex.Reason != ReasonOwnedUpstream
	}
	return h.saw(status.Code(err))
}
