package faults

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Injector breaks calls in the server, by a [Plan]. It is safe for concurrent
// use.
type Injector struct {
	plan   Plan
	report func(Kind)

	mu     sync.Mutex
	random *rand.Rand
	calls  int
}

// NewInjector returns an injector that calls report, where it is not nil, for
// each fault when it makes it.
func NewInjector(plan Plan, report func(Kind)) (*Injector, error) {
	if err := plan.Validate(); err != nil {
		return nil, err
	}
	if report == nil {
		report = func(Kind) {}
	}
	return &Injector{plan: plan, report: report, random: rand.New(rand.NewPCG(plan.Seed, 0))}, nil
}

// fate is what becomes of one call.
type fate struct {
	refuse, lose          bool
	slowBefore, slowAfter bool
}

func (i *Injector) draw() fate {
	i.mu.Lock()
	defer i.mu.Unlock()
	position := 0
	if i.plan.BurstEvery > 0 {
		position = i.calls % i.plan.BurstEvery
	}
	i.calls++
	if position >= i.plan.BurstEvery-i.plan.BurstLength && i.plan.BurstLength > 0 {
		return fate{refuse: true}
	}
	slow := i.random.Float64() < i.plan.SlowAttempts
	before := i.random.IntN(2) == 0
	return fate{
		lose:       i.random.Float64() < i.plan.LoseResponses,
		slowBefore: slow && before,
		slowAfter:  slow && !before,
	}
}

// Intercept is a [grpc.UnaryServerInterceptor]. It stands outside of what
// deduplicates, where the network would be.
func (i *Injector) Intercept(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	f := i.draw()
	if f.refuse {
		i.report(Refused)
		return nil, status.Error(codes.Unavailable, "fault: refused before it was executed")
	}
	if f.slowBefore {
		i.report(Slowed)
		if err := pause(ctx, i.plan.SlowBy); err != nil {
			return nil, err
		}
	}
	res, err := handler(ctx, req)
	if err != nil {
		return res, err
	}
	if f.slowAfter {
		i.report(Slowed)
		if err := pause(ctx, i.plan.SlowBy); err != nil {
			return nil, err
		}
	}
	if f.lose {
		i.report(ResponseLost)
		return nil, status.Error(codes.Unavailable, "fault: the response was lost after the call was executed")
	}
	return res, nil
}

// Hold is a [grpc.UnaryServerInterceptor] that holds executions up when they
// are done. It stands inside of what deduplicates, next to the handler.
func (i *Injector) Hold(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	res, err := handler(ctx, req)
	if err == nil && i.drawHold() {
		i.report(Held)
		// Whatever ends the pause, the work is done, and that is the answer.
		_ = pause(ctx, i.plan.HoldBy)
	}
	return res, err
}

func (i *Injector) drawHold() bool {
	if i.plan.HoldRecords == 0 {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.random.Float64() < i.plan.HoldRecords
}

// pause returns a status where ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}
