package dedup

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"log/slog"
	"time"
)

// log says something of an operation, which it names by its method and a
// digest.
func (e *Engine) log(ctx context.Context, level slog.Level, message string, op *Operation, err error) {
	if !e.logger.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("method", op.Key.Method),
		slog.String("operation", e.digest(op.Key)),
	}
	if err != nil {
		attrs = append(attrs, slog.Any("error", err))
	}
	e.logger.LogAttrs(ctx, level, "dedup: "+message, attrs...)
}

func (e *Engine) logLost(ctx context.Context, op *Operation, err error) {
	if err == nil {
		err = ErrLeaseLost
	}
	e.log(ctx, slog.LevelWarn, "lease was lost while the handler ran", op, err)
}

// digest names a key in a log. Without the engine's secret, which is nowhere
// but in its memory, nobody can try keys against it.
func (e *Engine) digest(key Key) string {
	mac := hmac.New(sha256.New, e.secret[:])
	for _, part := range [...]string{key.Scope, key.Method, key.ID} {
		mac.Write(binary.AppendUvarint(nil, uint64(len(part))))
		mac.Write([]byte(part))
	}
	return hex.EncodeToString(mac.Sum(nil)[:8])
}

// callStarts returns the time, where called will need it.
func (e *Engine) callStarts() time.Time {
	if e.observer.StoreCall == nil {
		return time.Time{}
	}
	return time.Now()
}

func (e *Engine) called(ctx context.Context, op *Operation, c StoreCall, started time.Time, err error) {
	if f := e.observer.StoreCall; f != nil {
		f(ctx, op.Key.Method, c, time.Since(started), err)
	}
}

func (e *Engine) held(ctx context.Context, op *Operation, delta int) {
	if f := e.observer.Held; f != nil {
		f(ctx, op.Key.Method, delta)
	}
}

// dispositionOf says how a call that did not execute was answered with err.
func dispositionOf(ctx context.Context, err error) Disposition {
	switch {
	case errors.Is(err, ErrKeyReused):
		return DispositionReused
	case errors.Is(err, ErrInProgress):
		return DispositionInProgress
	case errors.Is(err, ErrOutcomeUnknown):
		return DispositionUnknown
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return DispositionCancelled
	}
	return DispositionFailed
}
