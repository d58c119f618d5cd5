package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	ledgerv1 "github.com/retrysafe/retrysafe/gen/ledger/v1"
	"github.com/retrysafe/retrysafe/interceptor/idempotency"
	"github.com/retrysafe/retrysafe/interceptor/retry"
	"github.com/retrysafe/retrysafe/ledgerdemo/audit"
)

// replayedHeader is in the response where it is a replay.
const replayedHeader = "idempotency-replayed"

// target is what the clients call the servers' addresses together.
const target = "replicas:///ledger"

// connect returns a connection as a client of the ledger has it: with retries,
// or with a key alone. Each call goes to the next server that is there. What
// comes in observe sees every attempt.
func connect(addrs []string, withRetries bool, observe ...grpc.UnaryClientInterceptor) (*grpc.ClientConn, error) {
	opts, err := clientOptions(withRetries)
	if err != nil {
		return nil, err
	}
	opts = append(opts,
		grpc.WithResolvers(resolveTo(addrs)),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`),
		grpc.WithChainUnaryInterceptor(observe...),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			// gRPC waits a second before it connects again, which is long on
			// one machine.
			Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 250 * time.Millisecond},
			MinConnectTimeout: 2 * time.Second,
		}))
	return grpc.NewClient(target, opts...)
}

// resolveTo resolves target to addrs. It serves one connection.
func resolveTo(addrs []string) resolver.Builder {
	var state resolver.State
	for _, addr := range addrs {
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: addr}}})
	}
	r := manual.NewBuilderWithScheme("replicas")
	r.InitialState(state)
	return r
}

func clientOptions(withRetries bool) ([]grpc.DialOption, error) {
	if withRetries {
		return retry.DialOptions(policy()...)
	}
	key, err := idempotency.UnaryClientInterceptor()
	if err != nil {
		return nil, err
	}
	return []grpc.DialOption{grpc.WithDisableRetry(), grpc.WithChainUnaryInterceptor(key)}, nil
}

// load is all debits, and what their clients were told.
type load struct {
	config  Config
	debits  []audit.Debit
	latency []time.Duration // of each debit, all attempts and waits included

	next     atomic.Int64
	attempts atomic.Int64
	replays  atomic.Int64
	finished chan struct{} // gets one for each debit, acknowledged or not

	mu       sync.Mutex
	failures map[codes.Code]int
}

func newLoad(c Config) *load {
	random := rand.New(rand.NewPCG(c.Seed, 1))
	l := &load{
		config:   c,
		debits:   make([]audit.Debit, c.Operations),
		latency:  make([]time.Duration, c.Operations),
		finished: make(chan struct{}, c.Operations),
		failures: map[codes.Code]int{},
	}
	for i := range l.debits {
		l.debits[i] = audit.Debit{
			Reference:  fmt.Sprintf("payment-%06d", i+1),
			Account:    accountName(random.IntN(accounts)),
			MinorUnits: 1 + random.Int64N(maxAmount),
		}
	}
	return l
}

func accountName(i int) string { return fmt.Sprintf("customer-%02d", i+1) }

// connect opens a connection for each client.
func (l *load) connect(addrs []string) ([]*grpc.ClientConn, error) {
	conns := make([]*grpc.ClientConn, 0, l.config.Clients)
	for range l.config.Clients {
		conn, err := connect(addrs, !l.config.WithoutRetries, l.observe)
		if err != nil {
			return nil, errors.Join(err, closeAll(conns))
		}
		conns = append(conns, conn)
	}
	return conns, nil
}

func closeAll(conns []*grpc.ClientConn) error {
	var errs []error
	for _, conn := range conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}

// run lets a client debit on each connection, until all debits are finished or
// ctx has ended.
func (l *load) run(ctx context.Context, conns []*grpc.ClientConn) {
	var clients sync.WaitGroup
	for _, conn := range conns {
		clients.Go(func() { l.client(ctx, ledgerv1.NewLedgerServiceClient(conn)) })
	}
	clients.Wait()
}

// client takes one debit after the other.
func (l *load) client(ctx context.Context, ledger ledgerv1.LedgerServiceClient) {
	for ctx.Err() == nil {
		i := int(l.next.Add(1)) - 1
		if i >= len(l.debits) {
			return
		}
		l.debit(ctx, ledger, i)
		l.finished <- struct{}{}
		rest(ctx, rand.N(pause))
	}
}

// debit makes the i-th debit. Each is one client's alone.
func (l *load) debit(ctx context.Context, ledger ledgerv1.LedgerServiceClient, i int) {
	d := &l.debits[i]
	limit := patience
	if l.config.WithoutRetries {
		limit = attemptTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := time.Now()
	_, err := ledger.Debit(ctx, &ledgerv1.DebitRequest{
		AccountId: d.Account,
		Amount:    &ledgerv1.Money{Currency: currencyCode, MinorUnits: d.MinorUnits},
		Reference: d.Reference,
	})
	l.latency[i] = time.Since(began)
	if d.Acknowledged = err == nil; !d.Acknowledged {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.failures[status.Code(err)]++
	}
}

// observe counts attempts, and those that were answered with an outcome
// recorded before.
func (l *load) observe(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	l.attempts.Add(1)
	var header metadata.MD
	err := invoke(ctx, method, req, reply, cc, append(opts, grpc.Header(&header))...)
	if err == nil && len(header.Get(replayedHeader)) > 0 {
		l.replays.Add(1)
	}
	return err
}

// setUp opens the accounts and puts money on them.
func (l *load) setUp(ctx context.Context, addrs []string) (opening map[string]int64, err error) {
	conn, err := connect(addrs, true)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ledger := ledgerv1.NewLedgerServiceClient(conn)
	amount := &ledgerv1.Money{Currency: currencyCode, MinorUnits: l.config.opening()}
	opening = make(map[string]int64, accounts)
	for i := range accounts {
		id := accountName(i)
		if _, err := ledger.OpenAccount(ctx, &ledgerv1.OpenAccountRequest{AccountId: id, Currency: currencyCode}); err != nil {
			return nil, fmt.Errorf("open an account: %w", err)
		}
		if _, err := ledger.Credit(ctx, &ledgerv1.CreditRequest{AccountId: id, Amount: amount, Reference: "opening"}); err != nil {
			return nil, fmt.Errorf("credit an account: %w", err)
		}
		opening[id] = amount.GetMinorUnits()
	}
	return opening, nil
}

func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
