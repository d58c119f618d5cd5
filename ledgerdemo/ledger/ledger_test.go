package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/retrysafe/retrysafe/dedup"
	ledgerv1 "github.com/retrysafe/retrysafe/gen/ledger/v1"
)

func wantMessage(t *testing.T, got, want proto.Message) {
	t.Helper()
	if !proto.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", prototext.Format(got), prototext.Format(want))
	}
}

func TestMoneyMovesBetweenTwoAccounts(t *testing.T) {
	onEach(t, func(t *testing.T, k kit) {
		s := k.service
		at := timestamppb.New(noon.Truncate(time.Microsecond))

		opened, err := s.OpenAccount(t.Context(), &ledgerv1.OpenAccountRequest{AccountId: "alice", Currency: "EUR"})
		if err != nil {
			t.Fatal(err)
		}
		wantMessage(t, opened.GetAccount(), &ledgerv1.Account{AccountId: "alice", Balance: money(0, "EUR"), OpenTime: at})
		open(t, s, "bob", "EUR", 0)

		credited, err := s.Credit(t.Context(), &ledgerv1.CreditRequest{AccountId: "alice", Amount: money(1000, "EUR"), Reference: "salary"})
		if err != nil {
			t.Fatal(err)
		}
		wantMessage(t, credited.GetEntry(), &ledgerv1.Entry{EntryId: 2, TransactionId: 1, AccountId: "alice", CounterAccountId: "settlement:EUR",
			Kind: ledgerv1.EntryKind_ENTRY_KIND_CREDIT, Amount: money(1000, "EUR"), BalanceAfter: money(1000, "EUR"), Reference: "salary", PostTime: at})

		debited, err := s.Debit(t.Context(), &ledgerv1.DebitRequest{AccountId: "alice", Amount: money(250, "EUR"), Reference: "rent"})
		if err != nil {
			t.Fatal(err)
		}
		wantMessage(t, debited.GetEntry(), &ledgerv1.Entry{EntryId: 3, TransactionId: 2, AccountId: "alice", CounterAccountId: "settlement:EUR",
			Kind: ledgerv1.EntryKind_ENTRY_KIND_DEBIT, Amount: money(-250, "EUR"), BalanceAfter: money(750, "EUR"), Reference: "rent", PostTime: at})

		moved, err := s.Transfer(t.Context(), &ledgerv1.TransferRequest{FromAccountId: "alice", ToAccountId: "bob", Amount: money(750, "EUR")})
		if err != nil {
			t.Fatal(err)
		}
		wantMessage(t, moved, &ledgerv1.TransferResponse{
			FromEntry: &ledgerv1.Entry{EntryId: 5, TransactionId: 3, AccountId: "alice", CounterAccountId: "bob",
				Kind: ledgerv1.EntryKind_ENTRY_KIND_TRANSFER, Amount: money(-750, "EUR"), BalanceAfter: money(0, "EUR"), PostTime: at},
			ToEntry: &ledgerv1.Entry{EntryId: 6, TransactionId: 3, AccountId: "bob", CounterAccountId: "alice",
				Kind: ledgerv1.EntryKind_ENTRY_KIND_TRANSFER, Amount: money(750, "EUR"), BalanceAfter: money(750, "EUR"), PostTime: at},
		})
		for id, want := range map[string]int64{"alice": 0, "bob": 750, "settlement:EUR": -750} {
			if got := balance(t, s, id); got != want {
				t.Errorf("%s holds %d, want %d", id, got, want)
			}
		}

		listed, err := s.ListEntries(t.Context(), &ledgerv1.ListEntriesRequest{AccountId: "alice"})
		if err != nil {
			t.Fatal(err)
		}
		wantMessage(t, listed, &ledgerv1.ListEntriesResponse{Entries: []*ledgerv1.Entry{credited.GetEntry(), debited.GetEntry(), moved.GetFromEntry()}})
	})
}

func TestABalanceMayFillAllOf64Bits(t *testing.T) {
	onEach(t, func(t *testing.T, k kit) {
		s := k.service
		open(t, s, "rich", "EUR", math.MaxInt64)
		if got := balance(t, s, "settlement:EUR"); got != -math.MaxInt64 {
			t.Errorf("settlement:EUR holds %d", got)
		}
		wantRefusal(t, crediting("rich", money(1, "EUR"))(t.Context(), s), codes.OutOfRange, ReasonBalanceLimit)
		if err := debiting("rich", money(math.MaxInt64, "EUR"), "")(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if got := balance(t, s, "rich"); got != 0 {
			t.Errorf("rich holds %d", got)
		}
	})
}

func TestPagesHoldEachEntryOnce(t *testing.T) {
	onEach(t, func(t *testing.T, k kit) {
		s := k.service
		open(t, s, "alice", "EUR", 1000)
		open(t, s, "bob", "EUR", 0)
		for i := range 9 {
			if err := transferring("alice", "bob", money(int64(i)+1, "EUR"))(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		for _, size := range []int32{1, 3, 9, 10, 11, 0, math.MaxInt32} {
			t.Run(fmt.Sprint(size), func(t *testing.T) {
				var ids []int64
				req := &ledgerv1.ListEntriesRequest{AccountId: "alice", PageSize: size}
				for {
					res, err := s.ListEntries(t.Context(), req)
					if err != nil {
						t.Fatal(err)
					}
					if size > 0 && len(res.GetEntries()) > int(size) {
						t.Fatalf("a page of %d entries", len(res.GetEntries()))
					}
					for _, e := range res.GetEntries() {
						ids = append(ids, e.GetEntryId())
					}
					if res.GetNextPageToken() == "" {
						break
					}
					if len(res.GetEntries()) == 0 {
						t.Fatal("an empty page that is not the last")
					}
					req.PageToken = res.GetNextPageToken()
				}
				if len(ids) != 10 {
					t.Fatalf("%d entries on all pages, want 10", len(ids))
				}
				for i := range ids[1:] {
					if ids[i] >= ids[i+1] {
						t.Errorf("entries in the order %v", ids)
					}
				}
			})
		}
	})
}

func TestALaterEntryDoesNotShiftPages(t *testing.T) {
	onEach(t, func(t *testing.T, k kit) {
		s := k.service
		open(t, s, "alice", "EUR", 1000)
		for range 3 {
			if err := debiting("alice", money(1, "EUR"), "early")(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		first, err := s.ListEntries(t.Context(), &ledgerv1.ListEntriesRequest{AccountId: "alice", PageSize: 2})
		if err != nil {
			t.Fatal(err)
		}
		if err := debiting("alice", money(1, "EUR"), "late")(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		second, err := s.ListEntries(t.Context(), &ledgerv1.ListEntriesRequest{AccountId: "alice", PageToken: first.GetNextPageToken()})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range second.GetEntries() {
			got = append(got, e.GetReference())
		}
		if want := "early early late"; strings.Join(got, " ") != want {
			t.Errorf("the second page has %v, want %s", got, want)
		}
	})
}

func TestADamagedPageTokenIsNoticed(t *testing.T) {
	token := pageToken("alice", 42)
	if after, err := parsePageToken("alice", token); err != nil || after != 42 {
		t.Fatalf("read back as %d, %v", after, err)
	}
	for i := range token {
		b := []byte(token)
		b[i] ^= 1
		if _, err := parsePageToken("alice", string(b)); err == nil {
			t.Errorf("byte %d changed, and taken", i)
		}
	}
	for _, bad := range []string{token + "A", token[:len(token)-1], token + "\n", " " + token, "=", strings.Repeat("A", 1<<16)} {
		if _, err := parsePageToken("alice", bad); err == nil {
			t.Errorf("%.20q is taken", bad)
		}
	}
}

func TestEntriesSumToZeroUnderConcurrency(t *testing.T) {
	onEach(t, func(t *testing.T, k kit) {
		s, db := k.service, k.db
		ids := []string{"a", "b", "c", "d"}
		for _, id := range ids {
			open(t, s, id, "EUR", 100)
		}
		open(t, s, "y", "JPY", 100)

		const workers, rounds = 8, 40
		var done sync.WaitGroup
		for w := range workers {
			random := rand.New(rand.NewPCG(uint64(w), 0))
			done.Go(func() {
				for range rounds {
					from, to, amount := ids[random.IntN(4)], ids[random.IntN(4)], money(1+random.Int64N(60), "EUR")
					calls := []call{debiting(from, amount, ""), crediting(from, amount), transferring(from, to, amount), debiting("y", money(1, "JPY"), "")}
					err := calls[random.IntN(len(calls))](t.Context(), s)
					c := status.Code(err)
					moved := k.manyWriters && c == codes.Unavailable
					if c != codes.OK && c != codes.FailedPrecondition && c != codes.InvalidArgument && !moved {
						t.Errorf("answered %v", err)
					}
				}
			})
		}
		done.Wait()

		for name, query := range map[string]string{
			"currencies that do not sum to zero": `SELECT count(*) FROM (SELECT t.currency FROM ledger_entries e
				JOIN ledger_transactions t ON t.id = e.transaction_id GROUP BY 1 HAVING sum(e.amount) <> 0) AS c`,
			"transactions without two entries that sum to zero": `SELECT count(*) FROM (SELECT t.id FROM ledger_transactions t
				LEFT JOIN ledger_entries e ON e.transaction_id = t.id GROUP BY 1 HAVING count(e.id) <> 2 OR sum(e.amount) <> 0) AS t`,
			"balances that are not the sum of their entries": `SELECT count(*) FROM ledger_accounts a
				WHERE a.balance <> (SELECT coalesce(sum(amount), 0) FROM ledger_entries WHERE account_id = a.id)`,
			"entries whose balance is not the running sum": `SELECT count(*) FROM (SELECT balance_after,
				sum(amount) OVER (PARTITION BY account_id ORDER BY id) AS running FROM ledger_entries) AS e WHERE balance_after <> running`,
			"customers below zero": `SELECT count(*) FROM ledger_entries WHERE balance_after < 0 AND account_id NOT LIKE 'settlement:%'`,
		} {
			var n int
			if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil || n != 0 {
				t.Errorf("%s: %d, %v", name, n, err)
			}
		}
	})
}

// Behind the interceptor a handler's writes are the store's to commit or undo.
func TestAnExecutionsTransactionIsJoined(t *testing.T) {
	onEach(t, func(t *testing.T, k kit) {
		s, db := k.service, k.db
		open(t, s, "alice", "EUR", 1000)
		before := dump(t, db)
		op := dedup.Operation{Key: dedup.Key{Method: "debit", ID: "1"}}
		undone := errors.New("undone")
		_, err := dedup.Do(t.Context(), k.store, op, func(ctx context.Context) (dedup.Outcome, error) {
			if err := debiting("alice", money(1, "EUR"), "")(ctx, s); err != nil {
				t.Error(err)
			}
			return dedup.Outcome{}, undone
		})
		if !errors.Is(err, undone) {
			t.Fatal(err)
		}
		if after := dump(t, db); after != before {
			t.Errorf("an execution that failed left\n%s", after)
		}
		for range 2 {
			if _, err := dedup.Do(t.Context(), k.store, op, func(ctx context.Context) (dedup.Outcome, error) {
				return dedup.Outcome{}, debiting("alice", money(1, "EUR"), "")(ctx, s)
			}); err != nil {
				t.Fatal(err)
			}
		}
		if got := balance(t, s, "alice"); got != 999 {
			t.Errorf("alice holds %d after one debit under one key, want 999", got)
		}
	})
}

func TestEntriesAreNeverChanged(t *testing.T) {
	onEach(t, func(t *testing.T, k kit) {
		s, db := k.service, k.db
		open(t, s, "alice", "EUR", 1000)
		for _, statement := range []string{`UPDATE ledger_entries SET amount = 1`, `DELETE FROM ledger_entries`} {
			if _, err := db.ExecContext(t.Context(), statement); err == nil {
				t.Errorf("%s is taken", statement)
			}
		}
	})
}

func TestTheTablesAreMadeOnceAndKept(t *testing.T) {
	onEach(t, func(t *testing.T, k kit) {
		s, db := k.service, k.db
		open(t, s, "alice", "EUR", 1000)
		again, err := k.again(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := balance(t, NewService(again), "alice"); got != 1000 {
			t.Errorf("alice holds %d", got)
		}
		if _, err := db.ExecContext(t.Context(), `INSERT INTO ledger_schema (version) VALUES (2)`); err != nil {
			t.Fatal(err)
		}
		if _, err := k.again(t.Context()); err == nil || !strings.Contains(err.Error(), "version 2") {
			t.Errorf("a later version's tables: %v", err)
		}
	})
}

func TestManyMayMakeTheTablesAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, k kit) {
		var done sync.WaitGroup
		for range 8 {
			done.Go(func() {
				if _, err := k.again(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		done.Wait()
	})
}

// broken is a Storage that fails.
type broken struct {
	err       error
	transient bool
}

func (b broken) Write(context.Context, func(Conn) error) error { return b.err }
func (b broken) Read(context.Context, func(Conn) error) error  { return b.err }
func (b broken) Transient(error) bool                          { return b.transient }

func TestWhatTheStorageSaysStaysInTheLog(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancelLate := context.WithTimeout(t.Context(), -1)
	defer cancelLate()
	tests := []struct {
		name    string
		ctx     context.Context
		storage broken
		code    codes.Code
		logged  bool
	}{
		{"a failure", t.Context(), broken{err: errors.New("disk on fire")}, codes.Internal, true},
		{"a lock that was not had", t.Context(), broken{err: errors.New("locked"), transient: true}, codes.Unavailable, false},
		{"a balance that moved", t.Context(), broken{err: errMoved}, codes.Unavailable, false},
		{"a cancelled call", cancelled, broken{err: errors.New("interrupted")}, codes.Canceled, false},
		{"a call out of time", late, broken{err: errors.New("interrupted")}, codes.DeadlineExceeded, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			s := NewService(tt.storage, WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
			for name, c := range map[string]call{
				"debit": debiting("alice", money(1, "EUR"), "secret"), "credit": crediting("alice", money(1, "EUR")),
				"transfer": transferring("alice", "bob", money(1, "EUR")), "open": opening("alice", "EUR"),
				"get": getting("alice"), "list": listing(&ledgerv1.ListEntriesRequest{AccountId: "alice"}),
			} {
				err := c(tt.ctx, s)
				if status.Code(err) != tt.code || strings.Contains(err.Error(), tt.storage.err.Error()) {
					t.Errorf("%s answered %v, want %v", name, err, tt.code)
				}
			}
			if logged := strings.Contains(log.String(), tt.storage.err.Error()); logged != tt.logged {
				t.Errorf("logged: %t, want %t", logged, tt.logged)
			}
			if strings.Contains(log.String(), "secret") {
				t.Errorf("the request is in the log: %s", log.String())
			}
		})
	}
}

func TestTheUpdateItselfGuardsTheBalance(t *testing.T) {
	onEach(t, func(t *testing.T, k kit) {
		s, db := k.service, k.db
		open(t, s, "alice", "EUR", 10)
		before := dump(t, db)
		err := s.storage.Write(t.Context(), func(c Conn) error {
			_, err := move(t.Context(), c, movement{from: "alice", to: "settlement:EUR", amount: 11, currency: "EUR"})
			return err
		})
		if !errors.Is(err, errMoved) {
			t.Errorf("answered %v", err)
		}
		if after := dump(t, db); after != before {
			t.Errorf("it left\n%s", after)
		}
	})
}

func TestKindsOfEntryCanBeReadBack(t *testing.T) {
	for n := range ledgerv1.EntryKind_name {
		k := ledgerv1.EntryKind(n)
		if got, err := kindOfName(nameOfKind(k)); err != nil || got != k {
			t.Errorf("%v is read back as %v, %v", k, got, err)
		}
	}
	if _, err := kindOfName("gift"); err == nil {
		t.Error("an unknown kind is read")
	}
}
