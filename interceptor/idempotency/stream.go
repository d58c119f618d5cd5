package idempotency

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/retrysafe/retrysafe/interceptor/internal/wire"
)

// heldStream is the transport stream that a handler sees. It holds back the
// headers and trailers: nothing is answered before its outcome is settled, and
// what the handler of a rolled back execution set is never sent.
type heldStream struct {
	real grpc.ServerTransportStream

	mu      sync.Mutex
	header  metadata.MD
	trailer metadata.MD
	sent    bool // the handler called SendHeader
	settled bool
}

var (
	errHeaderSent = status.Error(codes.Internal, "idempotency: the header was already sent")
	errSettled    = status.Error(codes.Internal, "idempotency: the call was already answered")
)

// Method implements [grpc.ServerTransportStream].
func (s *heldStream) Method() string { return s.real.Method() }

// SetHeader implements [grpc.ServerTransportStream].
func (s *heldStream) SetHeader(md metadata.MD) error { return s.addHeader(md, false) }

// SendHeader implements [grpc.ServerTransportStream]. The header leaves with
// the answer, but as with grpc's own stream, nothing can be added to it.
func (s *heldStream) SendHeader(md metadata.MD) error { return s.addHeader(md, true) }

func (s *heldStream) addHeader(md metadata.MD, send bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.settled {
		return errSettled
	}
	if s.sent {
		return errHeaderSent
	}
	s.header = metadata.Join(s.header, md)
	s.sent = send
	return nil
}

// SetTrailer implements [grpc.ServerTransportStream].
func (s *heldStream) SetTrailer(md metadata.MD) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.settled {
		return errSettled
	}
	s.trailer = metadata.Join(s.trailer, md)
	return nil
}

// settle ends what the handler may set, and returns it. The mark of a replay is
// not among it: a handler that passes on what it got from another server may
// have set it, and this is no replay.
func (s *heldStream) settle() (header, trailer metadata.MD) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled = true
	delete(s.header, wire.ReplayedHeader)
	delete(s.trailer, wire.ReplayedHeader)
	return s.header, s.trailer
}

// setMetadata sets headers and trailers on the stream of ctx. Where that
// fails the call has ended, and nobody is left to read them.
func setMetadata(ctx context.Context, header, trailer metadata.MD) {
	_ = grpc.SetHeader(ctx, header)
	_ = grpc.SetTrailer(ctx, trailer)
}
