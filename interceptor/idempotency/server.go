package idempotency

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/fingerprint"
	"github.com/retrysafe/retrysafe/interceptor/internal/key"
	"github.com/retrysafe/retrysafe/interceptor/internal/message"
	"github.com/retrysafe/retrysafe/interceptor/internal/wire"
)

// UnaryServerInterceptor returns an interceptor that runs the handler once for
// each idempotency key and answers every repeat with the original response.
// The package's doc says what that means in full.
//
// The error reports every option that is wrong, and every policy in the linked
// .proto files that is. The store stays the caller's to close, once the server
// has stopped. Where an outcome could not be recorded in time, recording is
// tried again in the background until the lease ends; a program that wants to
// wait for that uses [NewServer].
func UnaryServerInterceptor(store dedup.Store, opts ...ServerOption) (grpc.UnaryServerInterceptor, error) {
	s, err := NewServer(store, opts...)
	if err != nil {
		return nil, err
	}
	return s.Intercept, nil
}

// Server is the server side as a value, for programs that close what they
// opened. It is safe for concurrent use.
type Server struct {
	engine    *dedup.Engine
	policies  *policies
	scope     func(context.Context) (string, error)
	headers   replayHeaders
	logger    *slog.Logger
	lastLog   throttle
	telemetry *telemetry // nil: nobody looks
}

// NewServer returns a [Server] on store. Its errors are those of
// [UnaryServerInterceptor].
func NewServer(store dedup.Store, opts ...ServerOption) (*Server, error) {
	var c serverConfig
	for _, o := range opts {
		if o != nil {
			o.applyToServer(&c)
		}
	}
	if c.logger == nil {
		c.logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{scope: c.scope, logger: c.logger}
	if s.scope == nil {
		s.scope = oneScope
	}
	errs := make([]error, 4, 4+len(c.errs))
	s.policies, errs[0] = newPolicies(&c.keys)
	s.headers, errs[1] = newReplayHeaders(c.headers)
	s.telemetry, errs[2] = newTelemetry(c.meters, c.tracers)
	engine := append(c.engine, dedup.WithLogger(c.logger), dedup.WithObserver(s.telemetry.observer()))
	s.engine, errs[3] = dedup.NewEngine(store, engine...)
	if err := errors.Join(append(errs, c.errs...)...); err != nil {
		return nil, err
	}
	return s, nil
}

// oneScope is the scope of all callers where the server does not tell them
// apart.
func oneScope(context.Context) (string, error) { return "", nil }

// Close ends what is still tried in the background, with one last try each, and
// waits for it. Call it once the gRPC server has stopped, and before the store
// is closed. It returns nil, also when it is called again.
func (s *Server) Close() error { return s.engine.Close() }

// Intercept is a [grpc.UnaryServerInterceptor].
func (s *Server) Intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	p, err := s.policies.of(info.FullMethod)
	if err != nil {
		s.log(ctx, info.FullMethod, err)
		return nil, status.Error(codes.Internal, "retrysafe: the method's policy is wrong")
	}
	if !p.keyed() {
		return handler(ctx, req)
	}
	k, ok, err := key.IncomingCall(ctx, req, p.keyField)
	switch {
	case err != nil:
		s.telemetry.refused(ctx, info.FullMethod, resultKeyInvalid)
		return nil, wire.Error(wire.ReasonKeyInvalid, err.Error())
	case !ok && p.requirement == KeyOptional:
		return handler(ctx, req)
	case !ok:
		s.telemetry.refused(ctx, info.FullMethod, resultKeyRequired)
		return nil, wire.Error(wire.ReasonKeyRequired, "the method needs the metadata "+MetadataKey)
	}
	op, err := s.operation(ctx, p, info.FullMethod, k, req)
	if err != nil {
		s.telemetry.refused(ctx, info.FullMethod, dedup.DispositionFailed.String())
		return nil, err
	}
	ctx, end := s.telemetry.span(ctx, info.FullMethod)
	defer end()
	c := call{server: s, policy: p, req: req, handler: handler, incoming: key.NewIncomingContext(k)}
	return c.answer(ctx, op)
}

// operation says what the call asks for. The error is a status.
func (s *Server) operation(ctx context.Context, p *policy, fullMethod, k string, req any) (dedup.Operation, error) {
	m, ok := message.Of(req)
	if !ok {
		return dedup.Operation{}, status.Errorf(codes.Internal, "retrysafe: the request is a %T, which is no protobuf message", req)
	}
	f, err := fingerprint.Message(m)
	if err != nil {
		return dedup.Operation{}, status.Errorf(codes.Internal, "retrysafe: the request has no fingerprint: %v", err)
	}
	scope, err := s.scope(ctx)
	if err != nil {
		return dedup.Operation{}, s.scopeError(ctx, fullMethod, err)
	}
	return dedup.Operation{
		Key:          dedup.Key{Scope: scope, Method: fullMethod, ID: k},
		Fingerprint:  f,
		Retention:    p.retention,
		MaxExecution: p.maxExecution,
		OnUnknown:    p.onUnknown,
	}, nil
}

// scopeError returns the status of a scope function's error. One without a
// status is logged and not shown: it may tell the caller what it should not
// know.
func (s *Server) scopeError(ctx context.Context, fullMethod string, err error) error {
	if st, ok := status.FromError(err); ok && st.Code() != codes.OK {
		return st.Err()
	}
	s.log(ctx, fullMethod, fmt.Errorf("idempotency: WithScope: %w", err))
	return status.Error(codes.Internal, "retrysafe: the caller's scope cannot be determined")
}
