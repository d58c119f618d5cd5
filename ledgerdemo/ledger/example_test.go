package ledger_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"google.golang.org/grpc/status"

	"github.com/retrysafe/retrysafe/dedup/sqlitestore"
	ledgerv1 "github.com/retrysafe/retrysafe/gen/ledger/v1"
	"github.com/retrysafe/retrysafe/ledgerdemo/ledger"
)

func Example() {
	if err := example(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// alice holds 750
	// FailedPrecondition: the account lacks EUR 2.50
}

func example(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "ledger")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	store, err := sqlitestore.Open(ctx, filepath.Join(dir, "ledger.db"))
	if err != nil {
		return err
	}
	defer store.Close()
	storage, err := ledger.NewSQLite(ctx, store.DB())
	if err != nil {
		return err
	}
	service := ledger.NewService(storage)

	eur := func(n int64) *ledgerv1.Money { return &ledgerv1.Money{Currency: "EUR", MinorUnits: n} }
	if _, err := service.OpenAccount(ctx, &ledgerv1.OpenAccountRequest{AccountId: "alice", Currency: "EUR"}); err != nil {
		return err
	}
	if _, err := service.Credit(ctx, &ledgerv1.CreditRequest{AccountId: "alice", Amount: eur(1000)}); err != nil {
		return err
	}
	res, err := service.Debit(ctx, &ledgerv1.DebitRequest{AccountId: "alice", Amount: eur(250)})
	if err != nil {
		return err
	}
	fmt.Println("alice holds", res.GetEntry().GetBalanceAfter().GetMinorUnits())
	_, err = service.Debit(ctx, &ledgerv1.DebitRequest{AccountId: "alice", Amount: eur(1000)})
	fmt.Printf("%v: %s\n", status.Code(err), status.Convert(err).Message())
	return nil
}
