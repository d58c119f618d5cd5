package storetest

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

// recorder is a testing.TB that keeps to itself what a case reports.
type recorder struct {
	testing.TB // for what a case does not use
	ctx        context.Context

	mu       sync.Mutex
	failures []string
	cleanups []func()
}

var _ testing.TB = (*recorder)(nil)

func (r *recorder) report(message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, message)
}

func (r *recorder) Error(args ...any)                 { r.report(fmt.Sprint(args...)) }
func (r *recorder) Errorf(format string, args ...any) { r.report(fmt.Sprintf(format, args...)) }
func (r *recorder) Fail()                             { r.report("failed") }
func (r *recorder) Helper()                           {}
func (r *recorder) Context() context.Context          { return r.ctx }

func (r *recorder) Fatal(args ...any) {
	r.Error(args...)
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) FailNow() {
	r.Fail()
	runtime.Goexit()
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.failures) > 0
}

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

// cleanUp runs the clean-ups, the last one first.
func (r *recorder) cleanUp() {
	for {
		r.mu.Lock()
		last := len(r.cleanups) - 1
		if last < 0 {
			r.mu.Unlock()
			return
		}
		f := r.cleanups[last]
		r.cleanups = r.cleanups[:last]
		r.mu.Unlock()
		f()
	}
}

// failuresOf runs one case on a storage of its own, in virtual time, and
// returns what it reports.
func failuresOf(t *testing.T, newStorage func(testing.TB) Storage, run func(*suite)) []string {
	var failures []string
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := &recorder{TB: t, ctx: ctx}
		done := make(chan struct{})
		go func() { // which Fatal may end
			defer close(done)
			run(&suite{TB: r, Storage: newStorage(r)})
		}()
		<-done
		cancel()
		r.cleanUp()
		failures = r.failures
	})
	return failures
}
