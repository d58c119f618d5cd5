package idempotency

import (
	"context"

	"google.golang.org/grpc"

	"github.com/retrysafe/retrysafe/dedup"
)

// UnaryServerInterceptor returns the server interceptor on store.
func UnaryServerInterceptor(store dedup.Store, opts ...ServerOption) (grpc.UnaryServerInterceptor, error) {
	s, err := NewServer(store, opts...)
	if err != nil {
		return nil, err
	}
	return s.Intercept, nil
}

// Server is the server interceptor with what it runs on.
type Server struct {
	engine *dedup.Engine
}

// NewServer returns the server side on store.
func NewServer(store dedup.Store, opts ...ServerOption) (*Server, error) {
	var c serverConfig
	for _, o := range opts {
		o.applyToServer(&c)
	}
	engine, err := dedup.NewEngine(store, c.engine...)
	if err != nil {
		return nil, err
	}
	return &Server{engine: engine}, nil
}

// Intercept is a [grpc.UnaryServerInterceptor].
func (s *Server) Intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	return handler(ctx, req)
}

// Close stops what still runs in the background and waits for it.
func (s *Server) Close() error { return s.engine.Close() }
