package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/pgstore"
	"github.com/retrysafe/retrysafe/dedup/sqlitestore"
	ledgerv1 "github.com/retrysafe/retrysafe/gen/ledger/v1"
	"github.com/retrysafe/retrysafe/internal/testserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2030, 1, 2, 12, 0, 0, 123456789, time.UTC)

// kit is a service on a new database, and what is beside it there.
type kit struct {
	service *Service
	db      *sql.DB
	store   dedup.Store // in the same database
	again   func(context.Context) (Storage, error)
	// manyWriters: a balance may change between the check and the update.
	manyWriters bool
}

func newKit(storage Storage, db *sql.DB, store dedup.Store, again func(context.Context) (Storage, error)) kit {
	s := NewService(storage)
	s.now = func() time.Time { return noon }
	return kit{service: s, db: db, store: store, again: again}
}

// onEach runs a test on each kind of database.
func onEach(t *testing.T, test func(*testing.T, kit)) {
	t.Run("SQLite", func(t *testing.T) { test(t, onSQLite(t)) })
	t.Run("PostgreSQL", func(t *testing.T) { test(t, onPostgres(t)) })
}

func onSQLite(t *testing.T) kit {
	t.Helper()
	store, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	again := func(ctx context.Context) (Storage, error) { return NewSQLite(ctx, store.DB()) }
	storage, err := again(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return newKit(storage, store.DB(), store, again)
}

func onPostgres(t *testing.T) kit {
	t.Helper()
	store, err := pgstore.Open(t.Context(), testserver.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	again := func(ctx context.Context) (Storage, error) { return NewPostgres(ctx, store.Pool()) }
	storage, err := again(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDBFromPool(store.Pool())
	t.Cleanup(func() { db.Close() })
	k := newKit(storage, db, store, again)
	k.manyWriters = true
	return k
}

// open opens an account and puts money on it.
func open(t *testing.T, s *Service, id, code string, deposit int64) {
	t.Helper()
	if _, err := s.OpenAccount(t.Context(), &ledgerv1.OpenAccountRequest{AccountId: id, Currency: code}); err != nil {
		t.Fatal(err)
	}
	if deposit == 0 {
		return
	}
	if _, err := s.Credit(t.Context(), &ledgerv1.CreditRequest{AccountId: id, Amount: money(deposit, code)}); err != nil {
		t.Fatal(err)
	}
}

func balance(t *testing.T, s *Service, id string) int64 {
	t.Helper()
	res, err := s.GetAccount(t.Context(), &ledgerv1.GetAccountRequest{AccountId: id})
	if err != nil {
		t.Fatal(err)
	}
	return res.GetAccount().GetBalance().GetMinorUnits()
}

// dump returns every row of the ledger as text.
func dump(t *testing.T, db *sql.DB) string {
	t.Helper()
	var all strings.Builder
	for _, query := range []string{
		`SELECT concat_ws(' ', id, kind, currency, balance, opened_at) FROM ledger_accounts ORDER BY id`,
		`SELECT concat_ws(' ', id, kind, currency, reference, posted_at) FROM ledger_transactions ORDER BY id`,
		`SELECT concat_ws(' ', id, transaction_id, account_id, counter_account_id, amount, balance_after) FROM ledger_entries ORDER BY id`,
	} {
		rows, err := db.QueryContext(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var row string
			if err := rows.Scan(&row); err != nil {
				t.Error(err)
			}
			fmt.Fprintln(&all, row)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

// detail returns the status's detail of that type, or nil.
func detail[T any](err error) (found T) {
	for _, d := range status.Convert(err).Details() {
		if d, ok := d.(T); ok {
			found = d
		}
	}
	return found
}

func wantRefusal(t *testing.T, err error, code codes.Code, reason string) {
	t.Helper()
	info := detail[*errdetails.ErrorInfo](err)
	if status.Code(err) != code || info.GetReason() != reason || info.GetDomain() != Domain {
		t.Errorf("answered %v with %v, want %v %s", err, info, code, reason)
	}
}

// call is one of the service's methods with a request.
type call func(context.Context, *Service) error

func debiting(id string, amount *ledgerv1.Money, reference string) call {
	return func(ctx context.Context, s *Service) error {
		_, err := s.Debit(ctx, &ledgerv1.DebitRequest{AccountId: id, Amount: amount, Reference: reference})
		return err
	}
}

func crediting(id string, amount *ledgerv1.Money) call {
	return func(ctx context.Context, s *Service) error {
		_, err := s.Credit(ctx, &ledgerv1.CreditRequest{AccountId: id, Amount: amount})
		return err
	}
}

func transferring(from, to string, amount *ledgerv1.Money) call {
	return func(ctx context.Context, s *Service) error {
		_, err := s.Transfer(ctx, &ledgerv1.TransferRequest{FromAccountId: from, ToAccountId: to, Amount: amount})
		return err
	}
}

func opening(id, code string) call {
	return func(ctx context.Context, s *Service) error {
		_, err := s.OpenAccount(ctx, &ledgerv1.OpenAccountRequest{AccountId: id, Currency: code})
		return err
	}
}

func listing(req *ledgerv1.ListEntriesRequest) call {
	return func(ctx context.Context, s *Service) error {
		_, err := s.ListEntries(ctx, req)
		return err
	}
}

func getting(id string) call {
	return func(ctx context.Context, s *Service) error {
		_, err := s.GetAccount(ctx, &ledgerv1.GetAccountRequest{AccountId: id})
		return err
	}
}
