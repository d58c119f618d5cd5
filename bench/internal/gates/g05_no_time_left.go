package gates

import (
	"context"
	"fmt"
	"time"

	"github.com/failsafe-go/failsafe-go/failsafegrpc"
	gax "github.com/googleapis/gax-go/v2"
	middleware "github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/retry"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrysafe/retrysafe/bench/internal/measure"
	ledgerv1 "github.com/retrysafe/retrysafe/gen/ledger/v1"
	"github.com/retrysafe/retrysafe/interceptor/retry"
)

const (
	callersDeadline = 200 * time.Millisecond
	// longWait is what every client is set to wait after a failure: so long
	// that jitter, which gax-go draws from zero, does not make it fit.
	longWait = time.Hour
)

// noTimeLeft: a server answers UNAVAILABLE at once, and the wait before the
// next attempt would pass the caller's deadline. Who sleeps all the same
// returns late and, mostly, without what the server said.
func noTimeLeft(ctx context.Context, m *Machine) ([]measure.Finding, error) {
	address, stop, err := serve(func() (*ledgerv1.DebitResponse, error) { return nil, errDown })
	if err != nil {
		return nil, err
	}
	defer stop()
	p := m.Plan
	p.Rounds = min(p.Rounds, 5)

	conns, err := patientClients()
	if err != nil {
		return nil, err
	}
	var ways []measure.Way
	told := make(map[string]*answers)
	for _, client := range conns {
		conn, err := dial(address, client.opts...)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		a := new(answers)
		told[client.name] = a
		ways = append(ways, measure.Way{Name: client.name, Round: func(ctx context.Context, _ time.Duration) (float64, error) {
			return a.time(ctx, conn, client.invoke)
		}})
	}
	c, err := p.Compare(ctx, ways...)
	if err != nil {
		return nil, err
	}
	findings := []measure.Finding{
		one("retrysafe: until the caller has an answer", c.Of("retrysafe"), measure.Nanoseconds, measure.AtMost(5e6)),
		counted("retrysafe: share of answers with the server's status", told["retrysafe"].share(), measure.Equal(1)),
	}
	for _, peer := range conns[1:] {
		findings = append(findings,
			measure.Finding{figure(peer.name+": until the caller has an answer", c.Of(peer.name), measure.Nanoseconds, measure.Limit{})},
			counted(peer.name+": share of answers with the server's status", told[peer.name].share(), measure.Limit{}))
	}
	return findings, nil
}

// answers counts those that carried what the server said.
type answers struct{ all, fromServer int }

func (a *answers) share() float64 { return float64(a.fromServer) / float64(a.all) }

// invoke makes a call in a client's own way. nil: the plain call.
type invoke func(ctx context.Context, call func(context.Context) error) error

func (a *answers) time(ctx context.Context, conn *grpc.ClientConn, how invoke) (float64, error) {
	if how == nil {
		how = func(ctx context.Context, call func(context.Context) error) error { return call(ctx) }
	}
	ctx, cancel := context.WithTimeout(ctx, callersDeadline)
	defer cancel()
	client, request := ledgerv1.NewLedgerServiceClient(conn), debitRequest()
	began := time.Now()
	err := how(ctx, func(ctx context.Context) error {
		_, err := client.Debit(ctx, request)
		return err
	})
	took := time.Since(began)
	if err == nil {
		return 0, fmt.Errorf("a server that is down answered")
	}
	a.all++
	if st, ok := status.FromError(err); ok && st.Code() == codes.Unavailable {
		a.fromServer++
	}
	return float64(took.Nanoseconds()), nil
}

// patientClient waits for an hour after a failure.
type patientClient struct {
	name   string
	opts   []grpc.DialOption
	invoke invoke
}

func patientClients() ([]patientClient, error) {
	ours, err := retry.DialOptions(retry.WithMethodSafety("*", retry.SafetySafe),
		retry.WithPolicy(retry.Policy{Backoff: retry.Backoff{Base: longWait, Cap: longWait, Jitter: retry.JitterNone}}))
	if err != nil {
		return nil, err
	}
	policy := failsafegrpc.NewRetryPolicyBuilder[any]().WithMaxAttempts(3).WithDelay(longWait).Build()
	return []patientClient{
		{name: "retrysafe", opts: ours},
		{name: goGRPCMiddleware, opts: []grpc.DialOption{grpc.WithChainUnaryInterceptor(
			middleware.UnaryClientInterceptor(middleware.WithMax(3), middleware.WithCodes(codes.Unavailable),
				middleware.WithBackoff(middleware.BackoffLinear(longWait))))}},
		{name: failsafeGo, opts: []grpc.DialOption{grpc.WithChainUnaryInterceptor(failsafegrpc.NewUnaryClientInterceptor(policy))}},
		{name: "grpc-go", opts: []grpc.DialOption{grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}], "retryPolicy": {
			"maxAttempts": 3, "initialBackoff": "3600s", "maxBackoff": "3600s", "backoffMultiplier": 1,
			"retryableStatusCodes": ["UNAVAILABLE"]}}]}`)}},
		{name: "gax-go", invoke: func(ctx context.Context, call func(context.Context) error) error {
			backoff := gax.Backoff{Initial: longWait, Max: longWait, Multiplier: 1}
			return gax.Invoke(ctx, func(ctx context.Context, _ gax.CallSettings) error { return call(ctx) },
				gax.WithRetry(func() gax.Retryer { return gax.OnCodes([]codes.Code{codes.Unavailable}, backoff) }))
		}},
	}, nil
}
