package retry

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
)

// log writes what happens to calls. It never sees a key, a request or a
// response; an error's text may hold any of them, so codes stand for errors.
// A nil log is silent.
type log struct {
	to *slog.Logger
}

func newLog(to *slog.Logger) *log {
	if to == nil {
		return nil
	}
	return &log{to: to}
}

func (l *log) debug(ctx context.Context) bool {
	return l != nil && l.to.Enabled(ctx, slog.LevelDebug)
}

// attempt logs an attempt with the wait before it.
func (l *log) attempt(ctx context.Context, x *call, c codes.Code, took time.Duration, before verdict) {
	if !l.debug(ctx) {
		return
	}
	l.to.LogAttrs(ctx, slog.LevelDebug, "attempt",
		slog.String("method", x.order.method), slog.String("target", x.target.name), slog.Int("attempt", x.attempts),
		slog.String("code", codeName(c)), slog.Duration("took", took),
		slog.Duration("wait", before.wait), slog.Duration("ceiling", before.ceiling),
		slog.String("jitter", x.order.rules.backoff.Jitter.String()), slog.Bool("pushback", before.pushback))
}

// ended logs a call that succeeded, or that failed in a way that is not
// retried.
func (l *log) ended(ctx context.Context, method, target string, attempts int, c codes.Code) {
	if !l.debug(ctx) {
		return
	}
	l.to.LogAttrs(ctx, slog.LevelDebug, "call ended",
		slog.String("method", method), slog.String("target", target), slog.Int("attempts", attempts), slog.String("code", codeName(c)))
}

// exhausted logs a call that was given up: at Warn where its retries ran out,
// at Debug where it had none.
func (l *log) exhausted(ctx context.Context, target string, ex *ExhaustedError) {
	if l == nil {
		return
	}
	level := slog.LevelDebug
	if ex.Reason.BudgetExhausted() {
		level = slog.LevelWarn
	}
	if !l.to.Enabled(ctx, level) {
		return
	}
	l.to.LogAttrs(ctx, level, "call exhausted",
		slog.String("method", ex.Method), slog.String("target", target), slog.Int("attempts", ex.Attempts),
		slog.Duration("waited", ex.Waited), slog.String("code", codeName(codeOf(ex))), slog.String("reason", ex.Reason.String()))
}

// codeName returns the name that gRPC's own documents use, "UNAVAILABLE".
func codeName(c codes.Code) string { return code.Code(c).String() }
