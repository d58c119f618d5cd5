package torture

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/auth"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/logging"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/ratelimit"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/sqlitestore"
	ledgerv1 "github.com/retrysafe/retrysafe/gen/ledger/v1"
	"github.com/retrysafe/retrysafe/interceptor/idempotency"
	"github.com/retrysafe/retrysafe/interceptor/retry"
	"github.com/retrysafe/retrysafe/ledgerdemo/ledger"
)

// neighbourhood is a ledger behind the suite's interceptors and those of
// others, in the order in which the package's doc has them.
type neighbourhood struct {
	*rig
	addr string

	calls, executions lines
	limit             atomic.Bool  // the rate limit refuses
	panics            atomic.Int64 // how many executions more panic, after their writes
	hold              atomic.Pointer[chan struct{}]
	claims            atomic.Int64
}

// lines counts what a logging interceptor writes.
type lines struct {
	mu sync.Mutex
	n  int
}

func (l *lines) Log(context.Context, logging.Level, string, ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
}

func (l *lines) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

// Limit implements ratelimit.Limiter.
func (n *neighbourhood) Limit(context.Context) error {
	if n.limit.Load() {
		return errors.New("too many")
	}
	return nil
}

type tenantKey struct{}

// authenticate takes a caller for the tenant that the token names.
func authenticate(ctx context.Context) (context.Context, error) {
	token, err := auth.AuthFromMD(ctx, "bearer")
	if err != nil {
		return nil, err
	}
	return context.WithValue(ctx, tenantKey{}, token), nil
}

func tenant(ctx context.Context) (string, error) {
	if name, ok := ctx.Value(tenantKey{}).(string); ok {
		return name, nil
	}
	return "", status.Error(codes.Unauthenticated, "nobody")
}

// handle stands right before the handler.
func (n *neighbourhood) handle(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	resp, err := handler(ctx, req)
	if held := n.hold.Swap(nil); held != nil {
		<-*held
	}
	if n.panics.Add(-1) >= 0 {
		panic("after the writes")
	}
	return resp, err
}

// countingStore counts what it is asked.
type countingStore struct {
	dedup.Store
	n *atomic.Int64
}

func (s countingStore) Claim(ctx context.Context, req dedup.ClaimRequest) (dedup.Answer, error) {
	s.n.Add(1)
	return s.Store.Claim(ctx, req)
}

func newNeighbourhood(t *testing.T, options ...grpc.ServerOption) *neighbourhood {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	n := &neighbourhood{rig: &rig{tb: t, debit: plainDebit, credit: plainCredit}}
	n.prepareFile(path)
	t.Cleanup(func() { n.db.Close() })
	n.openAccounts(1000, "alice")
	store, err := sqlitestore.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	storage, err := ledger.NewSQLite(t.Context(), store.DB())
	if err != nil {
		t.Fatal(err)
	}
	once, err := idempotency.NewServer(inPlaceOf(store, countingStore{store, &n.claims}), idempotency.WithScope(tenant))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { once.Close() })
	owner, err := retry.UnaryServerInterceptor()
	if err != nil {
		t.Fatal(err)
	}
	finished := logging.WithLogOnEvents(logging.FinishCall)
	srv := grpc.NewServer(append(options, grpc.ChainUnaryInterceptor(
		logging.UnaryServerInterceptor(&n.calls, finished),
		recovery.UnaryServerInterceptor(),
		auth.UnaryServerInterceptor(authenticate),
		ratelimit.UnaryServerInterceptor(n),
		owner,
		once.Intercept,
		logging.UnaryServerInterceptor(&n.executions, finished),
		n.handle,
	))...)
	ledgerv1.RegisterLedgerServiceServer(srv, ledger.NewService(storage))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n.addr = listener.Addr().String()
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(listener) }) // it ends with Stop
	t.Cleanup(func() { srv.Stop(); serving.Wait() })
	return n
}

// plain connects a client without any of the suite's interceptors.
func (n *neighbourhood) plain(t *testing.T, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(n.addr, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// as is the context of a call by a tenant.
func as(t *testing.T, tenant string) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return metadata.AppendToOutgoingContext(ctx, "authorization", "bearer "+tenant)
}

// debitAlice debits under a key, by a client that sends it itself.
func debitAlice(ctx context.Context, conn *grpc.ClientConn, key string) answer {
	ctx = metadata.AppendToOutgoingContext(ctx, idempotency.MetadataKey, key)
	var header metadata.MD
	resp, err := ledgerv1.NewLedgerServiceClient(conn).Debit(ctx,
		&ledgerv1.DebitRequest{AccountId: "alice", Amount: eur(100), Reference: "r"}, grpc.Header(&header))
	return answer{entry: resp.GetEntry(), err: err, replayed: len(header.Get("idempotency-replayed")) > 0}
}

func TestAPanicIsUndoneAndReachesTheRecovery(t *testing.T) {
	n := newNeighbourhood(t)
	conn := n.plain(t)
	n.panics.Store(1)
	if a := debitAlice(as(t, "a"), conn, "k"); status.Code(a.err) == codes.OK || status.Code(a.err) == codes.Unavailable {
		t.Errorf("answered %v, which is not the recovery's", a.err)
	}
	if entries := n.standing("r"); len(entries) != 0 {
		t.Errorf("of the execution that panicked stand %v", entries)
	}
	if a := debitAlice(as(t, "a"), conn, "k"); a.err != nil || a.replayed {
		t.Errorf("the next attempt: %v, replayed %v", a.err, a.replayed)
	}
	if entries := n.standing("r"); len(entries) != 1 {
		t.Errorf("%v stand in the ledger", entries)
	}
}

func TestWhatStandsInFrontRefusesBeforeAnythingIsClaimed(t *testing.T) {
	n := newNeighbourhood(t)
	conn := n.plain(t)
	if a := debitAlice(t.Context(), conn, "k"); status.Code(a.err) != codes.Unauthenticated {
		t.Errorf("without a token: %v", a.err)
	}
	n.limit.Store(true)
	if a := debitAlice(as(t, "a"), conn, "k"); status.Code(a.err) != codes.ResourceExhausted {
		t.Errorf("above the rate: %v", a.err)
	}
	if claims := n.claims.Load(); claims != 0 {
		t.Errorf("the store was asked %d times", claims)
	}
	n.limit.Store(false)
	if a := debitAlice(as(t, "a"), conn, "k"); a.err != nil || a.replayed {
		t.Errorf("then: %v, replayed %v", a.err, a.replayed)
	}
}

func TestWhatStandsInFrontSeesCallsAndWhatStandsBehindExecutions(t *testing.T) {
	n := newNeighbourhood(t)
	conn := n.plain(t)
	for range 3 {
		if a := debitAlice(as(t, "a"), conn, "k"); a.err != nil {
			t.Fatal(a.err)
		}
	}
	if calls, executions := n.calls.count(), n.executions.count(); calls != 3 || executions != 1 {
		t.Errorf("in front %d were logged, behind %d", calls, executions)
	}
}

func TestTwoTenantsWithOneKeyNeverMeet(t *testing.T) {
	n := newNeighbourhood(t)
	conn := n.plain(t)
	first := debitAlice(as(t, "a"), conn, "k")
	second := debitAlice(as(t, "b"), conn, "k")
	if first.err != nil || second.err != nil || second.replayed || first.entry.GetEntryId() == second.entry.GetEntryId() {
		t.Errorf("the first tenant got %v, %v, the second %v, %v", first.entry, first.err, second.entry, second.err)
	}
	// What a client says of itself is not believed.
	claims := as(t, "b")
	for _, name := range []string{"scope", "tenant", "retrysafe-scope", "idempotency-scope", "x-tenant"} {
		claims = metadata.AppendToOutgoingContext(claims, name, "a")
	}
	if again := debitAlice(claims, conn, "k"); again.entry.GetEntryId() != second.entry.GetEntryId() || !again.replayed {
		t.Errorf("a client that names another tenant got %v, %v", again.entry, again.err)
	}
}

func TestALimitOfOneAttemptStandsBehindTheRetries(t *testing.T) {
	n := newNeighbourhood(t)
	retries, err := retry.UnaryClientInterceptor(retry.WithPolicy(retry.Policy{
		MaxAttempts: 1000, Backoff: retry.Backoff{Base: time.Millisecond, Cap: 10 * time.Millisecond},
	}), retry.WithoutBudget())
	if err != nil {
		t.Fatal(err)
	}
	var attempts, calls lines
	started := logging.WithLogOnEvents(logging.StartCall)
	conn := n.plain(t, grpc.WithDisableRetry(), grpc.WithChainUnaryInterceptor(
		logging.UnaryClientInterceptor(&calls, started),
		retries,
		logging.UnaryClientInterceptor(&attempts, started),
		limitAttempt(100*time.Millisecond),
	))
	if a := n.debitSlowly(t, conn, &attempts); a.err != nil || !a.replayed {
		t.Errorf("answered %v, replayed %v", a.err, a.replayed)
	}
	if calls.count() != 1 || attempts.count() < 3 {
		t.Errorf("in front of the retries %d were logged, behind %d", calls.count(), attempts.count())
	}
	if entries := n.standing("r"); len(entries) != 1 {
		t.Errorf("%v stand in the ledger", entries)
	}
}

// debitSlowly debits by an execution that lasts until the third attempt has
// been made.
func (n *neighbourhood) debitSlowly(t *testing.T, conn *grpc.ClientConn, attempts *lines) answer {
	t.Helper()
	held := make(chan struct{})
	n.hold.Store(&held)
	ctx := as(t, "a")
	answered := make(chan answer, 1)
	go func() { answered <- debitAlice(ctx, conn, "the-key") }()
	for deadline := time.Now().Add(patience); attempts.count() < 3 && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	close(held)
	return <-answered
}
