package idempotency

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// log tells the operator why a call failed that its caller cannot help. During
// an outage that is every call, so it speaks once a second at most.
func (s *Server) log(ctx context.Context, fullMethod string, err error) {
	skipped, ok := s.lastLog.take(time.Now())
	if !ok {
		return
	}
	s.logger.LogAttrs(ctx, slog.LevelError, "call cannot be deduplicated",
		slog.String("method", fullMethod), slog.Any("error", err), slog.Int64("not_logged", skipped))
}

// throttle lets one through each second. The zero value is ready.
type throttle struct {
	next    atomic.Int64 // in Unix nanoseconds
	skipped atomic.Int64
}

// take reports whether now is one's turn, and how many were turned away since
// the last.
func (t *throttle) take(now time.Time) (skipped int64, ok bool) {
	next := t.next.Load()
	if now.UnixNano() < next || !t.next.CompareAndSwap(next, now.Add(time.Second).UnixNano()) {
		t.skipped.Add(1)
		return 0, false
	}
	return t.skipped.Swap(0), true
}
