package main_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/retrysafe/retrysafe/dedup/sqlitestore"
	ledgerv1 "github.com/retrysafe/retrysafe/gen/ledger/v1"
	"github.com/retrysafe/retrysafe/interceptor/idempotency"
	"github.com/retrysafe/retrysafe/interceptor/retry"
)

// The README's Go code, in the order in which it stands there.

func client(ctx context.Context, target string, creds credentials.TransportCredentials, request *ledgerv1.DebitRequest) error {
	retries, err := retry.DialOptions()
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient(target, append(retries, grpc.WithTransportCredentials(creds))...)
	if err != nil {
		return err
	}
	defer conn.Close()
	reply, err := ledgerv1.NewLedgerServiceClient(conn).Debit(ctx, request)
	if err != nil {
		return err
	}
	fmt.Println("debited, entry", reply.GetEntry().GetEntryId())
	return nil
}

func server(ctx context.Context, tenant func(context.Context) (string, error), serve func(*grpc.Server) error) error {
	store, err := sqlitestore.Open(ctx, "ledger.db")
	if err != nil {
		return err
	}
	defer store.Close()
	owner, err1 := retry.UnaryServerInterceptor()
	once, err2 := idempotency.UnaryServerInterceptor(store, idempotency.WithScope(tenant))
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	srv := grpc.NewServer(grpc.ChainUnaryInterceptor(owner, once))
	if _, err := store.DB().ExecContext(ctx, `CREATE TABLE account (id TEXT PRIMARY KEY, balance INTEGER NOT NULL)`); err != nil {
		return err
	}
	return serve(srv)
}

type readmeLedger struct {
	ledgerv1.UnimplementedLedgerServiceServer
}

func (readmeLedger) Debit(ctx context.Context, req *ledgerv1.DebitRequest) (*ledgerv1.DebitResponse, error) {
	amount, id := req.GetAmount().GetMinorUnits(), req.GetAccountId()
	tx, err := sqlitestore.Tx(ctx)
	if err != nil {
		return nil, err
	}
	_, err = tx.ExecContext(ctx, `UPDATE account SET balance = balance - ? WHERE id = ?`, amount, id)
	return &ledgerv1.DebitResponse{Entry: &ledgerv1.Entry{EntryId: 1}}, err
}

func Example_readme() {
	if err := readme(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// debited, entry 1
}

func readme() error {
	dir, err := os.MkdirTemp("", "readme")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	before, err := os.Getwd()
	if err != nil {
		return err
	}
	if err := os.Chdir(dir); err != nil {
		return err
	}
	defer func() { _ = os.Chdir(before) }()

	tenant := func(context.Context) (string, error) { return "tenant-1", nil }
	return server(context.Background(), tenant, func(srv *grpc.Server) error {
		ledgerv1.RegisterLedgerServiceServer(srv, readmeLedger{})
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		served := make(chan error, 1)
		go func() { served <- srv.Serve(l) }()
		called := client(context.Background(), l.Addr().String(), insecure.NewCredentials(), &ledgerv1.DebitRequest{AccountId: "alice"})
		srv.GracefulStop()
		return errors.Join(called, <-served)
	})
}

// TestTheReadmesCodeIsCompiled finds each Go block of the README, but for its
// indentation, in this file.
func TestTheReadmesCodeIsCompiled(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("readme_test.go")
	if err != nil {
		t.Fatal(err)
	}
	compiled := flat(string(source))
	blocks := strings.Split(string(readme), "```go\n")[1:]
	if len(blocks) != 3 {
		t.Errorf("the README has %d Go blocks, this test knows 3", len(blocks))
	}
	for _, block := range blocks {
		code, _, closed := strings.Cut(block, "```")
		if !closed || !strings.Contains(compiled, flat(code)) {
			t.Errorf("this code of the README is not compiled here:\n%s", code)
		}
	}
}

// flat is text without the indentation of its lines.
func flat(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimLeft(line, "\t ")
	}
	return strings.Join(lines, "\n")
}
