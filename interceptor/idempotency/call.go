package idempotency

import (
	"context"
	"errors"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/interceptor/internal/key"
	"github.com/retrysafe/retrysafe/interceptor/internal/wire"
)

// call is one call with a key.
type call struct {
	server  *Server
	policy  *policy
	req     any
	handler grpc.UnaryHandler

	incoming key.IncomingContext // the handler's context
	stream   heldStream
	resp     any // with err the handler's answer
	err      error
	barred   bool      // the answer is no outcome: the engine returns its error
	small    [256]byte // for the bytes of a response that fits
}

// answer returns what the operation answered: now, or when it was executed.
func (c *call) answer(ctx context.Context, op dedup.Operation) (any, error) {
	c.stream.real = grpc.ServerTransportStreamFromContext(ctx)
	x := executors.Get().(*executor)
	x.call = c
	res, err := c.server.engine.Do(ctx, op, x.execute)
	x.call = nil
	executors.Put(x)
	switch {
	case err == nil && res.Replayed:
		return c.replay(ctx, op.Key.Method, &res.Outcome)
	case err == nil, c.barred:
		header, trailer := c.stream.settle()
		setMetadata(ctx, header, trailer)
		return c.resp, c.err
	}
	c.stream.settle()
	if errors.Is(err, dedup.ErrStoreUnavailable) || errors.Is(err, dedup.ErrRecordUnreadable) {
		c.server.log(ctx, op.Key.Method, err)
	}
	return nil, refuse(ctx, err)
}

// executor is [call.execute] as a function that is not made anew for each
// call. The engine calls it before Do returns, if at all.
type executor struct {
	call    *call
	execute func(context.Context) (dedup.Outcome, error)
}

var executors = sync.Pool{New: func() any {
	x := new(executor)
	x.execute = func(ctx context.Context) (dedup.Outcome, error) { return x.call.execute(ctx) }
	return x
}}

// execute runs the handler under the claim.
func (c *call) execute(ctx context.Context) (dedup.Outcome, error) {
	c.incoming.Context = ctx
	ctx = &c.incoming
	if c.stream.real != nil {
		ctx = grpc.NewContextWithServerTransportStream(ctx, &c.stream)
	}
	c.resp, c.err = c.handler(ctx, c.req)
	if errors.Is(c.err, dedup.ErrNoEffect) {
		c.barred = true
		return dedup.Outcome{}, c.err
	}
	out, err := outcomeOf(c.resp, c.err, c.small[:0])
	if err != nil {
		c.resp, c.err, c.barred = nil, err, true
		return dedup.Outcome{}, err
	}
	header, trailer := c.stream.settle()
	out.Header, out.Trailer = c.server.headers.pick(header), c.server.headers.pick(trailer)
	return out, nil
}

// replay answers with a recorded outcome.
func (c *call) replay(ctx context.Context, fullMethod string, out *dedup.Outcome) (any, error) {
	resp, st, err := answerOf(out, c.policy.response)
	if err != nil {
		c.server.log(ctx, fullMethod, err)
		return nil, refuse(ctx, err)
	}
	// Records are trusted no further than the present allow-list.
	header, trailer := marked(c.server.headers.pick(out.Header)), c.server.headers.pick(out.Trailer)
	if st != nil {
		setMetadata(ctx, header, marked(trailer))
		return nil, st.Err()
	}
	setMetadata(ctx, header, trailer)
	return resp, nil
}

var replayedMark = metadata.Pairs(wire.ReplayedHeader, wire.Replayed)

// marked returns md, which it may change, with the mark of a replay.
func marked(md metadata.MD) metadata.MD {
	if md == nil {
		return replayedMark
	}
	md[wire.ReplayedHeader] = replayedMark[wire.ReplayedHeader]
	return md
}
