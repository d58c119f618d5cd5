package audit

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"go.uber.org/goleak"

	ledgerv1 "github.com/retrysafe/retrysafe/gen/ledger/v1"
	"github.com/retrysafe/retrysafe/internal/testserver"
	"github.com/retrysafe/retrysafe/ledgerdemo/database"
	"github.com/retrysafe/retrysafe/ledgerdemo/ledger"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const opening = 10_000

// onEach runs a test on each kind of database that keeps a ledger.
func onEach(t *testing.T, test func(*testing.T, *ledger.Service, *sql.DB, Expectation)) {
	t.Run("SQLite", func(t *testing.T) {
		at := database.URL{Kind: database.SQLite, Address: filepath.Join(t.TempDir(), "ledger.db")}
		db := openDB(t, at)
		storage, err := ledger.NewSQLite(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		s := ledger.NewService(storage)
		test(t, s, db, fill(t, s))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		at := database.URL{Kind: database.PostgreSQL, Address: testserver.Postgres(t)}
		pool, err := pgxpool.New(t.Context(), at.Address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		storage, err := ledger.NewPostgres(t.Context(), pool)
		if err != nil {
			t.Fatal(err)
		}
		s := ledger.NewService(storage)
		test(t, s, openDB(t, at), fill(t, s))
	})
}

func openDB(t *testing.T, at database.URL) *sql.DB {
	t.Helper()
	db, err := Open(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// fill opens two accounts and makes ten debits of 100, all acknowledged. It
// returns the expectation that the ledger then fulfils.
func fill(t *testing.T, s *ledger.Service) Expectation {
	t.Helper()
	want := Expectation{Currency: "EUR", Opening: map[string]int64{}}
	for _, id := range []string{"a", "b"} {
		if _, err := s.OpenAccount(t.Context(), &ledgerv1.OpenAccountRequest{AccountId: id, Currency: "EUR"}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Credit(t.Context(), &ledgerv1.CreditRequest{AccountId: id, Amount: eur(opening)}); err != nil {
			t.Fatal(err)
		}
		want.Opening[id] = opening
		for i := range 5 {
			d := Debit{Reference: fmt.Sprintf("%s-%d", id, i), Account: id, MinorUnits: 100, Acknowledged: true}
			debit(t, s, d)
			want.Debits = append(want.Debits, d)
		}
	}
	return want
}

func eur(n int64) *ledgerv1.Money { return &ledgerv1.Money{Currency: "EUR", MinorUnits: n} }

func debit(t *testing.T, s *ledger.Service, d Debit) {
	t.Helper()
	_, err := s.Debit(t.Context(), &ledgerv1.DebitRequest{AccountId: d.Account, Amount: eur(d.MinorUnits), Reference: d.Reference})
	if err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, db *sql.DB, want Expectation) *Report {
	t.Helper()
	r, err := Run(t.Context(), db, want)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func exec(t *testing.T, db *sql.DB, statements string) {
	t.Helper()
	unguard := `DROP TRIGGER IF EXISTS ledger_entries_no_update; DROP TRIGGER IF EXISTS ledger_entries_no_delete`
	if _, ok := db.Driver().(*stdlib.Driver); ok {
		unguard = `DROP TRIGGER IF EXISTS ledger_entries_stay ON ledger_entries`
	}
	if _, err := db.ExecContext(t.Context(), unguard+";"+statements); err != nil {
		t.Fatal(err)
	}
}

func TestASoundLedgerPasses(t *testing.T) {
	onEach(t, func(t *testing.T, _ *ledger.Service, db *sql.DB, want Expectation) {
		want.Debits = append(want.Debits, Debit{Reference: "refused", Account: "a", MinorUnits: 7})
		r := run(t, db, want)
		if !r.OK() {
			t.Errorf("findings: %v", r.Findings)
		}
		if r.Executions != 10 || r.Doubled != 0 || r.Lost != 0 || r.Unanswered != 0 {
			t.Errorf("%+v", r)
		}
		if r.BalanceExpected != 2*opening-1000 || r.BalanceFound != r.BalanceExpected {
			t.Errorf("balance expected %d, found %d", r.BalanceExpected, r.BalanceFound)
		}
	})
}

func TestARepeatAfterAnUnknownOutcomeIsExcused(t *testing.T) {
	onEach(t, func(t *testing.T, s *ledger.Service, db *sql.DB, want Expectation) {
		debit(t, s, want.Debits[3])
		want.MayRepeat = 2
		r := run(t, db, want)
		if !r.OK() || r.Doubled != 1 || r.Repeats != 1 || r.BalanceFound != r.BalanceExpected-100 {
			t.Errorf("%+v", r)
		}
	})
}

func TestALedgerIsNotKeptInRedis(t *testing.T) {
	if _, err := Open(t.Context(), database.URL{Kind: database.Redis}); err == nil || !strings.Contains(err.Error(), "Redis") {
		t.Errorf("%v", err)
	}
}

func TestADoctoredLedgerIsFoundOut(t *testing.T) {
	tests := []struct {
		name   string
		doctor func(*testing.T, *ledger.Service, *sql.DB, *Expectation)
		want   []string // in the findings
		check  func(*Report) bool
	}{
		{
			name: "a debit made twice",
			doctor: func(t *testing.T, s *ledger.Service, _ *sql.DB, want *Expectation) {
				debit(t, s, want.Debits[3])
			},
			want:  []string{"debits that stand in the ledger more than once: 1", "the accounts hold EUR 189.00, their owners count on EUR 190.00"},
			check: func(r *Report) bool { return r.Doubled == 1 && r.Executions == 11 && r.BalanceFound == 18900 },
		},
		{
			name: "a debit made three times counts once as doubled",
			doctor: func(t *testing.T, s *ledger.Service, _ *sql.DB, want *Expectation) {
				debit(t, s, want.Debits[3])
				debit(t, s, want.Debits[3])
			},
			want:  []string{"debits that stand in the ledger more than once: 1"},
			check: func(r *Report) bool { return r.Doubled == 1 && r.Executions == 12 },
		},
		{
			name: "an unacknowledged debit made twice",
			doctor: func(t *testing.T, s *ledger.Service, _ *sql.DB, want *Expectation) {
				want.Debits[3].Acknowledged = false
				debit(t, s, want.Debits[3])
			},
			want:  []string{"debits that stand in the ledger more than once: 1"},
			check: func(r *Report) bool { return r.Doubled == 1 },
		},
		{
			name: "more debits made twice than outcomes were unknown",
			doctor: func(t *testing.T, s *ledger.Service, _ *sql.DB, want *Expectation) {
				debit(t, s, want.Debits[3])
				debit(t, s, want.Debits[3])
				debit(t, s, want.Debits[4])
				want.MayRepeat = 2
			},
			want: []string{"debits that stand in the ledger more than once: 2", "made again 3 times, and only 2 times",
				"the accounts hold EUR 187.00, their owners count on EUR 190.00"},
			check: func(r *Report) bool { return r.Doubled == 2 && r.Repeats == 3 },
		},
		{
			name: "a repeat that is excused, of a debit whose client was told of a failure",
			doctor: func(t *testing.T, s *ledger.Service, _ *sql.DB, want *Expectation) {
				debit(t, s, want.Debits[3])
				want.Debits[3].Acknowledged = false
				want.MayRepeat = 1
			},
			want:  []string{"their clients were told of a failure: 1", "the accounts hold EUR 189.00, their owners count on EUR 191.00"},
			check: func(r *Report) bool { return r.Unanswered == 1 },
		},
		{
			name: "an acknowledged debit that is not there",
			doctor: func(_ *testing.T, _ *ledger.Service, _ *sql.DB, want *Expectation) {
				want.Debits = append(want.Debits, Debit{Reference: "gone", Account: "a", MinorUnits: 100, Acknowledged: true})
			},
			want:  []string{"debits that were acknowledged and do not stand in the ledger: 1", "count on EUR 189.00"},
			check: func(r *Report) bool { return r.Lost == 1 && r.Executions == 10 },
		},
		{
			name: "a debit that was taken out whole",
			doctor: func(t *testing.T, _ *ledger.Service, db *sql.DB, _ *Expectation) {
				exec(t, db, `DELETE FROM ledger_entries WHERE transaction_id IN (SELECT id FROM ledger_transactions WHERE reference = 'b-2');
					DELETE FROM ledger_transactions WHERE reference = 'b-2'`)
			},
			want:  []string{"debits that were acknowledged and do not stand in the ledger: 1", "do not hold the sum of their entries: 2", "is not the sum of the entries up to them"},
			check: func(r *Report) bool { return r.Lost == 1 },
		},
		{
			name: "a debit whose client was told of a failure",
			doctor: func(_ *testing.T, _ *ledger.Service, _ *sql.DB, want *Expectation) {
				want.Debits[3].Acknowledged = false
			},
			want:  []string{"debits that stand in the ledger, and their clients were told of a failure: 1", "count on EUR 191.00"},
			check: func(r *Report) bool { return r.Unanswered == 1 && r.Doubled == 0 && r.Lost == 0 },
		},
		{
			name: "a debit that nobody asked for",
			doctor: func(t *testing.T, s *ledger.Service, _ *sql.DB, _ *Expectation) {
				debit(t, s, Debit{Reference: "stranger", Account: "a", MinorUnits: 100})
			},
			want:  []string{"debits that stand in the ledger, and no client asked for them: 1"},
			check: func(r *Report) bool { return r.Executions == 11 },
		},
		{
			name: "a debit of another amount, the sum made up for elsewhere",
			doctor: func(_ *testing.T, _ *ledger.Service, _ *sql.DB, want *Expectation) {
				want.Debits[3].MinorUnits += 50
				want.Debits[4].MinorUnits -= 50
			},
			want:  []string{"debits that stand in the ledger with another account or amount: 2"},
			check: func(r *Report) bool { return r.BalanceExpected == r.BalanceFound },
		},
		{
			name: "a debit of another account",
			doctor: func(_ *testing.T, _ *ledger.Service, _ *sql.DB, want *Expectation) {
				want.Debits[3].Account = "b"
			},
			want: []string{"debits that stand in the ledger with another account or amount: 1"},
		},
		{
			name: "an entry that was changed",
			doctor: func(t *testing.T, _ *ledger.Service, db *sql.DB, _ *Expectation) {
				exec(t, db, `UPDATE ledger_entries SET amount = amount - 1 WHERE id = (SELECT max(id) FROM ledger_entries WHERE account_id = 'b')`)
			},
			want: []string{"all entries in EUR sum to -1, not to zero", "transactions without two entries that sum to zero: 1",
				"not the sum of the entries up to them: 1", "accounts that do not hold the sum of their entries: 1", "another account or amount"},
		},
		{
			name: "an entry without its counter entry",
			doctor: func(t *testing.T, _ *ledger.Service, db *sql.DB, _ *Expectation) {
				exec(t, db, `DELETE FROM ledger_entries WHERE id = (SELECT max(id) FROM ledger_entries WHERE account_id = 'settlement:EUR')`)
			},
			want: []string{"all entries in EUR sum to -100", "transactions without two entries that sum to zero: 1"},
		},
		{
			name: "a transaction without entries",
			doctor: func(t *testing.T, _ *ledger.Service, db *sql.DB, _ *Expectation) {
				exec(t, db, `INSERT INTO ledger_transactions (kind, currency, reference, posted_at) VALUES ('credit', 'EUR', '', 0)`)
			},
			want: []string{"transactions without two entries that sum to zero: 1"},
		},
		{
			name: "a balance that was changed",
			doctor: func(t *testing.T, _ *ledger.Service, db *sql.DB, _ *Expectation) {
				exec(t, db, `UPDATE ledger_accounts SET balance = balance + 5 WHERE id = 'a'`)
			},
			want:  []string{"the accounts hold EUR 190.05", "accounts that do not hold the sum of their entries: 1"},
			check: func(r *Report) bool { return r.BalanceFound == 19005 },
		},
		{
			name: "an account that is gone",
			doctor: func(_ *testing.T, _ *ledger.Service, _ *sql.DB, want *Expectation) {
				want.Opening["c"] = 1
			},
			want: []string{"their owners count on EUR 190.01"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, s *ledger.Service, db *sql.DB, want Expectation) {
				tt.doctor(t, s, db, &want)
				r := run(t, db, want)
				if r.OK() {
					t.Fatalf("passed: %+v", r)
				}
				all := strings.Join(r.Findings, "\n")
				for _, w := range tt.want {
					if !strings.Contains(all, w) {
						t.Errorf("the findings\n%s\nlack %q", all, w)
					}
				}
				if tt.check != nil && !tt.check(r) {
					t.Errorf("%+v", r)
				}
			})
		})
	}
}

func TestAnAuditThatCannotBeMadeIsAnError(t *testing.T) {
	onEach(t, func(t *testing.T, _ *ledger.Service, db *sql.DB, want Expectation) {
		exec(t, db, `DROP TABLE ledger_entries`)
		if r, err := Run(t.Context(), db, want); err == nil {
			t.Errorf("reported %+v", r)
		}
	})
}
