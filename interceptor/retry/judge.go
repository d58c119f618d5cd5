package retry

import (
	"context"
	"errors"
	"math"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrysafe/retrysafe/interceptor/internal/wire"
)

// verdict is what follows a failed attempt.
type verdict struct {
	final    error // what the caller gets; nil: there is another attempt
	code     codes.Code
	wait     time.Duration // before the next attempt
	ceiling  time.Duration // what wait was drawn below; 0: it was not drawn
	pushback bool          // the server asked for wait
	failover bool          // the next attempt goes to the next target
}

// judge decides what follows err. Every budget is asked before the wait, and
// the token of a failure is taken whether or not a retry follows.
func (x *call) judge(err error) verdict {
	st := statusOf(err)
	if !x.order.rules.retries(st.Code()) {
		return verdict{final: err}
	}
	if gone := x.caller.Err(); gone != nil {
		return verdict{final: x.callerGone(gone, err)}
	}
	left := x.left()
	if left <= 0 { // the caller's deadline passed, whichever timer fired first
		return verdict{final: x.exhausted(x.limit.reason, err)}
	}
	allowed := x.target.bucket.take()
	x.client.telemetry.level(x.caller, x.target)

	v := verdict{code: st.Code()}
	asked, push := pushback(x.trailer, st)
	reason := Reason(0)
	switch {
	case push == wire.PushbackStop:
		return verdict{final: x.exhausted(ReasonPushback, err)}
	case x.here >= x.order.rules.maxAttempts:
		reason = ReasonMaxAttempts
	case !allowed:
		reason = ReasonBudget
	default:
		v.plan(x, asked, push == wire.PushbackWait)
		if v.wait >= left-x.shortest {
			reason = x.limit.reason
		}
	}
	if reason == 0 {
		return v
	}
	if x.failOver(left) {
		return verdict{code: st.Code(), failover: true}
	}
	return verdict{final: x.exhausted(reason, err)}
}

// plan sets the wait: the server's, after which waits start anew, or the next
// of our own.
func (v *verdict) plan(x *call, asked time.Duration, pushed bool) {
	if pushed {
		v.wait, v.pushback = asked, true
		x.backoff.reset()
		return
	}
	v.wait, v.ceiling = x.backoff.next(&x.order.rules.backoff)
}

// left returns the time that is left to the call.
func (x *call) left() time.Duration {
	if !x.limit.exists() {
		return math.MaxInt64
	}
	return time.Until(x.limit.at)
}

// failOver moves the call to the next target, if there is one that it may go
// to and time for an attempt there.
func (x *call) failOver(left time.Duration) bool {
	c := x.client
	if x.next >= len(c.failover) || left <= x.shortest {
		return false
	}
	if x.order.safety != SafetySafe && !c.sharedStore {
		return false
	}
	to := c.failover[x.next]
	x.next++
	x.conn, x.target = to.conn, to.target
	x.here = 0
	x.backoff.reset()
	return true
}

// wait waits as v says. The error is what the caller gets: its own context's,
// if that ended meanwhile.
func (x *call) wait(v verdict, last error) error {
	x.observer.retrying(v)
	if f := x.client.onRetry; f != nil {
		f(x.caller, Retry{
			Method: x.order.method, Target: x.target.name, Attempts: x.attempts, Code: v.code, Err: last,
			Wait: v.wait, Ceiling: v.ceiling, Pushback: v.pushback, Failover: v.failover,
		})
	}
	if v.wait <= 0 {
		if gone := x.caller.Err(); gone != nil {
			return x.callerGone(gone, last)
		}
		return nil
	}
	start := time.Now()
	gone := sleep(x.caller, v.wait)
	x.waited += time.Since(start)
	if gone != nil {
		return x.callerGone(gone, last)
	}
	return nil
}

// callerGone returns what a caller gets whose context has ended.
func (x *call) callerGone(gone, last error) error {
	if errors.Is(gone, context.DeadlineExceeded) {
		return x.exhausted(ReasonDeadline, last)
	}
	return &canceledError{method: x.order.method, attempts: x.attempts, ctx: gone, cause: context.Cause(x.caller), last: last}
}

// exhausted makes the error of a call that is given up, and tells everyone who
// asked to know.
func (x *call) exhausted(reason Reason, last error) error {
	ex := &ExhaustedError{Reason: reason, Method: x.order.method, Attempts: x.attempts, Waited: x.waited, key: hidden(x.order.key), err: last}
	x.client.exhausted(x.caller, &x.order, x.target, ex)
	return ex
}

// statusOf is status.Convert that also knows the bare context errors of
// interceptors below.
func statusOf(err error) *status.Status {
	st, ok := status.FromError(err)
	if ok || !isContextError(err) {
		return st
	}
	return status.FromContextError(err)
}

func codeOf(err error) codes.Code { return statusOf(err).Code() }

func isContextError(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
