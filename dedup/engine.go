package dedup

import (
	"context"
	"crypto/rand"
	"errors"
	"reflect"
	"time"
)

// Engine executes operations once. It is safe for concurrent use. One Engine
// should serve all operations of a process on one store: callers of the same
// operation then wait for each other in memory, and one of them goes to the
// store.
type Engine struct {
	store      Store
	waiter     Waiter // store, where it can wake those who wait
	storage    Store  // store, or what is behind its caches
	comparable bool   // whether storage can be compared with ==
	settings
	flights    *flights
	background background
	secret     [32]byte // of the digests in its log
}

// NewEngine returns an engine on store, which stays the caller's to close,
// after the engine. The error reports every option that is wrong.
func NewEngine(store Store, opts ...Option) (*Engine, error) {
	s, err := newSettings(opts)
	if isNil(store) {
		err = errors.Join(errors.New("dedup: NewEngine: store is nil"), err)
	}
	if err != nil {
		return nil, err
	}
	e := &Engine{
		store:    store,
		storage:  storageOf(store),
		settings: s,
		flights:  newFlights(s.maxWaiters),
	}
	e.comparable = reflect.ValueOf(e.storage).Comparable()
	e.waiter, _ = store.(Waiter)
	e.background.stop = make(chan struct{})
	rand.Read(e.secret[:])
	return e, nil
}

// Close ends what the engine does in the background, recording outcomes that
// could not be recorded in time, with one last try for each, and waits for it.
// It returns nil, also when it is called again. Do still works afterwards; what
// it would have left to the background it then does before it returns.
func (e *Engine) Close() error {
	e.background.close()
	return nil
}

// Do executes op once: it claims the operation, calls fn, and records what fn
// answered. Where the operation was executed before, or is being executed, it
// returns that one's outcome and does not call fn.
//
// fn runs in the caller's goroutine, under the claim. Its context has the
// values of ctx, an [Execution], and what the store adds, but it does not end
// with ctx: what has begun is finished and recorded, up to
// [WithMaxExecution]. It is also cancelled, with the cause [ErrLeaseLost],
// where the claim was lost. What fn then answers is classed like any other
// answer: an OK after the time was up is an OK.
//
// What fn answers is settled by its class, see [Classify]: a Terminal outcome
// is recorded. An error of fn is no outcome; it is returned as it is, and
// classed Uncertain, or NoEffect where it wraps [ErrNoEffect]. A panic is
// Uncertain and goes on to the caller. [Execution.Settle] overrules all but a
// panic.
//
// The error, where it is not fn's, is one of [ErrKeyReused],
// [*InProgressError], [ErrOutcomeUnknown], [*StoreError], [ErrFull],
// [ErrTooLarge], [ErrRecordUnreadable], [ErrNested], [ErrNoKey], or ctx's own
// error where ctx ended before the operation was claimed. A key that came
// before under another version of the fingerprint cannot be compared, and
// answers ErrRecordUnreadable rather than executing.
//
// ErrTooLarge where the store promises [ExactlyOnce] says that the operation
// was undone. In other stores the effect stands: the call that executed it gets
// its Result, with Unrecorded set, and repeats get ErrTooLarge.
func (e *Engine) Do(ctx context.Context, op Operation, fn func(context.Context) (Outcome, error)) (Result, error) {
	c := call{engine: e, fn: fn, started: time.Now(), disposition: DispositionFailed}
	if e.observer.Operation != nil {
		defer func() {
			e.observer.Operation(ctx, c.op.Key.Method, c.disposition, time.Since(c.started))
		}()
	}
	var err error
	if c.op, err = op.complete(&e.settings); err != nil {
		return Result{}, err
	}
	if err := ctx.Err(); err != nil {
		c.disposition = DispositionCancelled
		return Result{}, err
	}
	res, err := c.do(ctx)
	if err != nil && !c.executed {
		c.disposition = dispositionOf(ctx, err)
	}
	return res, err
}

// Do is [Engine.Do] with an engine of its own, for a single call or where
// callers of one operation in one process are rare, such as in a consumer of a
// message queue, as package consumertest shows it. It leaves nothing running:
// where an outcome cannot be recorded it tries again, within the store timeout,
// before it returns.
func Do(ctx context.Context, store Store, op Operation, fn func(context.Context) (Outcome, error), opts ...Option) (Result, error) {
	e, err := NewEngine(store, opts...)
	if err != nil {
		return Result{}, err
	}
	if err := e.Close(); err != nil {
		return Result{}, err
	}
	return e.Do(ctx, op, fn)
}

// isNil says whether store is nil, or the nil pointer of a variable that
// nobody has set.
func isNil(store Store) bool {
	v := reflect.ValueOf(store)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// sharesStore says whether both engines work on one store.
func (e *Engine) sharesStore(other *Engine) bool {
	return e == other || e.comparable && other.comparable && e.storage == other.storage
}
