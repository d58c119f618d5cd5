package torture

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/ledgerdemo/ledger"
)

// The layers of a server, each with its steps. They change nothing else.

// outermost stands in front of all interceptors.
func (m *mine) outermost(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	m.pass(requestReceived)
	resp, err := handler(ctx, req)
	m.pass(responseReady)
	return resp, err
}

// innermost stands between the idempotency interceptor and the handler. Where
// the plan's step is one of a slow or of a refused execution, it makes the
// execution one.
func (m *mine) innermost(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	m.pass(handlerBegins)
	switch m.Step {
	case beforeRenew, afterRenew:
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	case beforeRelease, afterRelease:
		return nil, status.Error(codes.Unavailable, "not now")
	}
	resp, err := handler(ctx, req)
	m.pass(handlerEnds)
	return resp, err
}

// transport is told of the end of a call, when its response is the transport's.
type transport struct{ *mine }

func (transport) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (transport) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (transport) HandleConn(context.Context, stats.ConnStats)                       {}

func (t transport) HandleRPC(_ context.Context, s stats.RPCStats) {
	if _, ok := s.(*stats.End); ok {
		t.pass(responseSent)
	}
}

// minedStore is a store with steps around its calls.
type minedStore struct {
	dedup.Store
	*mine
}

// inPlaceOf is the store that decorates another, with that one's ability to
// wake those who wait.
func inPlaceOf(original, decorated dedup.Store) dedup.Store {
	if w, ok := original.(dedup.Waiter); ok {
		return struct {
			dedup.Store
			dedup.Waiter
		}{decorated, w}
	}
	return decorated
}

func (s minedStore) Claim(ctx context.Context, req dedup.ClaimRequest) (dedup.Answer, error) {
	s.pass(beforeClaim)
	answer, err := s.Store.Claim(ctx, req)
	if err == nil && answer.State == dedup.Claimed {
		s.pass(afterClaim)
		answer.Claim = minedClaim{answer.Claim, s.mine}
	}
	return answer, err
}

type minedClaim struct {
	dedup.Claim
	*mine
}

func (c minedClaim) Complete(ctx context.Context, done dedup.Completion) error {
	c.pass(beforeComplete)
	err := c.Claim.Complete(ctx, done)
	c.pass(afterComplete)
	return err
}

func (c minedClaim) Renew(ctx context.Context, lease time.Duration) error {
	c.pass(beforeRenew)
	err := c.Claim.Renew(ctx, lease)
	c.pass(afterRenew)
	return err
}

func (c minedClaim) Release(ctx context.Context) error {
	c.pass(beforeRelease)
	err := c.Claim.Release(ctx)
	c.pass(afterRelease)
	return err
}

// minedStorage is the ledger's storage with steps around its statements.
type minedStorage struct {
	ledger.Storage
	*mine
}

func (s minedStorage) Write(ctx context.Context, fn func(ledger.Conn) error) error {
	s.pass(writesBegin)
	err := s.Storage.Write(ctx, func(c ledger.Conn) error { return fn(&minedConn{Conn: c, mine: s.mine}) })
	s.pass(writesDone)
	return err
}

type minedConn struct {
	ledger.Conn
	*mine
	made int
}

func (c *minedConn) One(ctx context.Context, query string, args []any, dest ...any) (bool, error) {
	found, err := c.Conn.One(ctx, query, args, dest...)
	c.made++
	c.pass(statement(c.made))
	return found, err
}
