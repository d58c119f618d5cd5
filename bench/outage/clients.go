package outage

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/retrysafe/retrysafe/interceptor/retry"
)

const (
	clients  = 10_000
	period   = time.Second      // from one call of a client to its next
	deadline = 20 * time.Second // of a call
	whole    = 30 * time.Second
)

// perCall returns how many attempts a call made.
func (r result) perCall() float64 { return float64(r.attempts) / float64(r.calls) }

// herd returns the busiest slice as a multiple of what the server can answer.
func (r result) herd() float64 { return float64(r.worstSlice) / (capacity * slice.Seconds()) }

// fleet is clients of one kind.
type fleet struct {
	name string
	// processes is how many share the clients between them. Those of one share
	// a connection, and so a token budget.
	processes int
	options   []retry.Option
}

// result is what a fleet did and got.
type result struct {
	calls, failed int
	attempts      int
	whileDown     float64       // attempts a second while the server refuses
	worstSlice    int           // attempts in the busiest slice after it was back
	recovered     time.Duration // from the server's return until all is as before it
}

// run lets the fleet live through the outage. It belongs in a bubble of
// testing/synctest.
func (f *fleet) run() (result, error) {
	s := newServer(whole)
	log := newCallLog(whole)
	var all sync.WaitGroup
	for range f.processes {
		intercept, err := retry.UnaryClientInterceptor(append(f.options, retry.WithMethodSafety("*", retry.SafetySafe))...)
		if err != nil {
			return result{}, err
		}
		for range clients / f.processes {
			all.Go(func() { live(s, intercept, log) })
		}
	}
	all.Wait()
	return s.result(log), nil
}

// live makes a client's calls until the whole is over.
func live(s *server, intercept grpc.UnaryClientInterceptor, log *callLog) {
	next := rand.N(period)
	for next < whole {
		time.Sleep(next - time.Since(s.began))
		err := call(s, intercept)
		log.add(time.Since(s.began), err == nil)
		// The next full period of its own that has not passed.
		for next += period; next < time.Since(s.began); next += period {
		}
	}
}

func call(s *server, intercept grpc.UnaryClientInterceptor) error {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	return intercept(ctx, "/simulated.v1.Service/Call", nil, nil, nil,
		func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
			return s.answer(ctx)
		})
}

// callLog counts calls by the slice of time in which they ended.
type callLog struct {
	mu            sync.Mutex
	ended, failed []int
}

func newCallLog(whole time.Duration) *callLog {
	n := int((whole+deadline)/slice) + 1
	return &callLog{ended: make([]int, n), failed: make([]int, n)}
}

func (l *callLog) add(ended time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := int(ended / slice)
	l.ended[i]++
	if !ok {
		l.failed[i]++
	}
}

func (s *server) result(log *callLog) result {
	var r result
	for i := range log.ended {
		r.calls += log.ended[i]
		r.failed += log.failed[i]
	}
	down, back := int(dies/slice), int(isBack/slice)
	for i, n := range s.attempts {
		r.attempts += n
		switch {
		case i >= back:
			r.worstSlice = max(r.worstSlice, n)
		case i >= down:
			r.whileDown += float64(n) / (isBack - dies).Seconds()
		}
	}
	r.recovered = log.recovered(back)
	return r
}

// recovered returns how long after the slice back it was that in every second
// from then on as many calls succeeded as clients make, but for one of 100.
func (l *callLog) recovered(back int) time.Duration {
	const second = int(time.Second / slice)
	recovered := back
	for i := back; i+second <= int(whole/slice)-second; i++ {
		succeeded := 0
		for j := i; j < i+second; j++ {
			succeeded += l.ended[j] - l.failed[j]
		}
		if 100*succeeded < 99*clients {
			recovered = i + 1
		}
	}
	return time.Duration(recovered-back) * slice
}
