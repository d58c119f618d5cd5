package server

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	ledgerv1 "github.com/retrysafe/retrysafe/gen/ledger/v1"
	"github.com/retrysafe/retrysafe/interceptor/idempotency"
	"github.com/retrysafe/retrysafe/internal/testserver"
	"github.com/retrysafe/retrysafe/ledgerdemo/database"
	"github.com/retrysafe/retrysafe/ledgerdemo/faults"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newFile(t *testing.T) database.URL {
	t.Helper()
	return database.URL{Kind: database.SQLite, Address: filepath.Join(t.TempDir(), "ledger.db")}
}

// start runs a server until the test ends, and returns a connection to it and
// what stops it earlier.
func start(t *testing.T, c Config) (*grpc.ClientConn, func() error) {
	t.Helper()
	c.Addr = "127.0.0.1:0"
	if c.Store.IsZero() {
		c.Store = newFile(t)
	}
	ctx, cancel := context.WithCancel(t.Context())
	addrs := make(chan net.Addr, 1)
	done := make(chan error, 1)
	go func() { done <- Run(ctx, c, func(a net.Addr) { addrs <- a }) }()
	stop := sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	var addr net.Addr
	select {
	case addr = <-addrs:
	case err := <-done:
		done <- err
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(addr.String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn, stop
}

func eur(n int64) *ledgerv1.Money { return &ledgerv1.Money{Currency: "EUR", MinorUnits: n} }

func openAlice(t *testing.T, conn *grpc.ClientConn) ledgerv1.LedgerServiceClient {
	t.Helper()
	client := ledgerv1.NewLedgerServiceClient(conn)
	ctx := keyed(t, "alice")
	if _, err := client.OpenAccount(ctx, &ledgerv1.OpenAccountRequest{AccountId: "alice", Currency: "EUR"}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Credit(ctx, &ledgerv1.CreditRequest{AccountId: "alice", Amount: eur(1000)}); err != nil {
		t.Fatal(err)
	}
	return client
}

// keyed is a context as a client in any language would send it.
func keyed(t *testing.T, key string) context.Context {
	return metadata.AppendToOutgoingContext(t.Context(), idempotency.MetadataKey, key)
}

func balance(t *testing.T, client ledgerv1.LedgerServiceClient) int64 {
	t.Helper()
	res, err := client.GetAccount(t.Context(), &ledgerv1.GetAccountRequest{AccountId: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	return res.GetAccount().GetBalance().GetMinorUnits()
}

func TestFaultsHitDebitsAlone(t *testing.T) {
	var mu sync.Mutex
	var made []faults.Kind
	conn, _ := start(t, Config{
		Faults:  faults.Plan{LoseResponses: 1},
		OnFault: func(k faults.Kind) { mu.Lock(); defer mu.Unlock(); made = append(made, k) },
	})
	client := openAlice(t, conn)
	_, err := client.Debit(keyed(t, "k"), &ledgerv1.DebitRequest{AccountId: "alice", Amount: eur(300)})
	if status.Code(err) != codes.Unavailable {
		t.Errorf("answered %v", err)
	}
	if got := balance(t, client); got != 700 {
		t.Errorf("alice holds %d: the response was to be lost, not the debit", got)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(made) != 1 || made[0] != faults.ResponseLost {
		t.Errorf("faults %v", made)
	}
}

func TestStoppingFinishesCallsUnderWay(t *testing.T) {
	slowed := make(chan struct{}, 1)
	conn, stop := start(t, Config{
		Faults:  faults.Plan{SlowAttempts: 1, SlowBy: 300 * time.Millisecond},
		OnFault: func(faults.Kind) { slowed <- struct{}{} },
	})
	client := openAlice(t, conn)
	answered := make(chan error, 1)
	go func() {
		_, err := client.Debit(keyed(t, "k"), &ledgerv1.DebitRequest{AccountId: "alice", Amount: eur(300)})
		answered <- err
	}()
	<-slowed
	if err := stop(); err != nil {
		t.Error(err)
	}
	if err := <-answered; err != nil {
		t.Errorf("a call under way was answered %v", err)
	}
}

func TestHealthAndReflectionAreServed(t *testing.T) {
	conn, _ := start(t, Config{})
	for _, service := range []string{"", "ledger.v1.LedgerService"} {
		res, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{Service: service})
		if err != nil || res.GetStatus() != healthv1.HealthCheckResponse_SERVING {
			t.Errorf("health of %q: %v, %v", service, res, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	list := &reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}
	if err := stream.Send(list); err != nil {
		t.Fatal(err)
	}
	res, err := stream.Recv()
	if err != nil || !strings.Contains(res.String(), "ledger.v1.LedgerService") {
		t.Errorf("reflection: %v, %v", res, err)
	}
}

func TestTheLogTellsOfCallsAndNotWhatTheySay(t *testing.T) {
	var log bytes.Buffer
	conn, stop := start(t, Config{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	client := openAlice(t, conn)
	if _, err := client.Debit(keyed(t, "the-key"), &ledgerv1.DebitRequest{AccountId: "alice", Amount: eur(99999), Reference: "the-reference"}); status.Code(err) != codes.FailedPrecondition {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	text := log.String()
	if !strings.Contains(text, "grpc.method=Debit") || !strings.Contains(text, "grpc.code=FailedPrecondition") {
		t.Errorf("the call is not in the log:\n%s", text)
	}
	for _, secret := range []string{"the-key", "the-reference", "alice", "99999", "989.99"} {
		if strings.Contains(text, secret) {
			t.Errorf("%s is in the log:\n%s", secret, text)
		}
	}
}

func TestAPanicIsAnsweredAndItsValueNotTold(t *testing.T) {
	var log bytes.Buffer
	err := recovered(slog.New(slog.NewTextHandler(&log, nil)))(t.Context(), "the value")
	if status.Code(err) != codes.Internal || strings.Contains(err.Error()+log.String(), "the value") {
		t.Errorf("answered %v, logged %s", err, log.String())
	}
}

func TestAServerThatCannotStartSaysWhy(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := newFile(t)
	nowhere := database.URL{Kind: database.SQLite, Address: filepath.Join(t.TempDir(), "no", "ledger.db")}
	redis := database.URL{Kind: database.Redis, Address: testserver.Redis(t)}
	tests := []struct {
		name   string
		config Config
		want   string
	}{
		{"an address in use", Config{Addr: taken.Addr().String(), Store: file}, "in use"},
		{"not an address", Config{Addr: "nowhere", Store: file}, "nowhere"},
		{"no store", Config{Addr: "127.0.0.1:0"}, "the store is nowhere"},
		{"no ledger beside Redis", Config{Addr: "127.0.0.1:0", Store: redis}, "neither in SQLite nor in PostgreSQL"},
		{"a ledger in Redis", Config{Addr: "127.0.0.1:0", Store: redis, Ledger: redis}, "neither in SQLite nor in PostgreSQL"},
		{"a ledger beside SQLite", Config{Addr: "127.0.0.1:0", Store: file, Ledger: file}, "no place of its own"},
		{"a ledger's folder that does not exist", Config{Addr: "127.0.0.1:0", Store: redis, Ledger: nowhere}, "open the ledger"},
		{"no PostgreSQL server", Config{Addr: "127.0.0.1:0", Store: database.URL{Kind: database.PostgreSQL, Address: "postgres://u:secret@127.0.0.1:1/d"}}, "open postgres://127.0.0.1:1/d: pgstore"},
		{"no Redis server", Config{Addr: "127.0.0.1:0", Store: database.URL{Kind: database.Redis, Address: "redis://u:secret@127.0.0.1:1"}}, "open redis://127.0.0.1:1: redisstore"},
		{"a folder that does not exist", Config{Addr: "127.0.0.1:0", Store: nowhere}, "ledger.db"},
		{"faults that cannot be", Config{Addr: "127.0.0.1:0", Store: file, Faults: faults.Plan{LoseResponses: 2}}, "LoseResponses"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := Run(t.Context(), tt.config, func(net.Addr) { t.Error("it is ready") })
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") || errors.Is(err, context.Canceled) {
				t.Errorf("%v, want something with %q", err, tt.want)
			}
		})
	}
}
