package torture

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/dedup/pgstore"
	"github.com/retrysafe/retrysafe/internal/testserver"
	"github.com/retrysafe/retrysafe/ledgerdemo/ledger"
)

// rig is a store and a ledger without servers, and the test's own view of the
// ledger.
type rig struct {
	tb testing.TB
	config
	db *sql.DB
	// method names by kind of movement, which differ by the policy for unknown
	// outcomes.
	debit, credit string
}

const (
	plainDebit  = "/ledger.v1.LedgerService/Debit"
	plainCredit = "/ledger.v1.LedgerService/Credit"
)

// newRig prepares a store and a ledger of a kind. Servers that a test gives
// are used, otherwise those that all tests share.
func newRig(tb testing.TB, k kind, b bug, servers ...*testserver.Server) *rig {
	tb.Helper()
	r := &rig{tb: tb, config: config{Kind: k, Bug: b, Lease: 300 * time.Millisecond}, debit: plainDebit, credit: plainCredit}
	url := func(shared func(testing.TB) string) string {
		if len(servers) > 0 {
			return servers[0].URL()
		}
		return shared(tb)
	}
	switch k {
	case onSQLite:
		r.Store = filepath.Join(tb.TempDir(), "store.db")
		file := r.Store
		if b == recordApart {
			r.Ledger = filepath.Join(tb.TempDir(), "ledger.db")
			file = r.Ledger
		}
		r.prepareFile(file)
	case onPostgres, leasedPostgres:
		r.Store = url(testserver.Postgres)
		if k == leasedPostgres {
			r.Ledger = r.Store
		}
		r.preparePostgres()
	case leasedRedis:
		r.Store = url(testserver.Redis)
		r.Ledger = filepath.Join(tb.TempDir(), "ledger.db")
		r.prepareFile(r.Ledger)
	}
	tb.Cleanup(func() { r.db.Close() })
	return r
}

// strict makes the rig's clients call the methods that reject an unknown
// outcome.
func (r *rig) strict() *rig {
	r.debit, r.credit = strictDebit, strictCredit
	return r
}

func (r *rig) prepareFile(path string) {
	r.tb.Helper()
	db, err := openDB(path)
	if err != nil {
		r.tb.Fatal(err)
	}
	r.db = db
	if _, err := ledger.NewSQLite(r.tb.Context(), db); err != nil {
		r.tb.Fatal(err)
	}
}

func (r *rig) preparePostgres() {
	r.tb.Helper()
	pool, err := pgxpool.New(r.tb.Context(), r.Store)
	if err != nil {
		r.tb.Fatal(err)
	}
	defer pool.Close()
	if err := pgstore.Migrate(r.tb.Context(), pool); err != nil {
		r.tb.Fatal(err)
	}
	if _, err := pool.Exec(r.tb.Context(), pgSchema); err != nil {
		r.tb.Fatal(err)
	}
	if r.db, err = sql.Open("pgx", r.Store); err != nil {
		r.tb.Fatal(err)
	}
}

// openAccounts opens accounts with a balance that came from nowhere, before
// there are servers.
func (r *rig) openAccounts(balance int64, ids ...string) {
	r.tb.Helper()
	ctx, cancel := context.WithTimeout(r.tb.Context(), patience)
	defer cancel()
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		r.tb.Fatal(err)
	}
	defer tx.Rollback() // after Commit it does nothing
	const insert = `INSERT INTO ledger_accounts (id, kind, currency, balance, opened_at) VALUES ($1, $2, 'EUR', $3, 0) ON CONFLICT DO NOTHING`
	if _, err := tx.ExecContext(ctx, insert, ledger.SettlementAccount("EUR"), "settlement", 0); err != nil {
		r.tb.Fatal(err)
	}
	for _, id := range ids {
		if _, err := tx.ExecContext(ctx, insert, id, "customer", balance); err != nil {
			r.tb.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		r.tb.Fatal(err)
	}
}

// standing returns the customer's entries of the movements with a reference.
func (r *rig) standing(reference string) []int64 {
	r.tb.Helper()
	rows, err := r.db.QueryContext(r.tb.Context(), `SELECT e.id FROM ledger_entries e
		JOIN ledger_transactions t ON t.id = e.transaction_id
		WHERE t.reference = $1 AND e.account_id NOT LIKE 'settlement:%' ORDER BY e.id`, reference)
	if err != nil {
		r.tb.Fatal(err)
	}
	defer rows.Close()
	var entries []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			r.tb.Fatal(err)
		}
		entries = append(entries, id)
	}
	if err := rows.Err(); err != nil {
		r.tb.Fatal(err)
	}
	return entries
}

// executions counts the movements in the ledger by their reference.
func (r *rig) executions() map[string]int {
	r.tb.Helper()
	rows, err := r.db.QueryContext(r.tb.Context(), `SELECT reference, count(*) FROM ledger_transactions GROUP BY reference`)
	if err != nil {
		r.tb.Fatal(err)
	}
	defer rows.Close()
	found := make(map[string]int)
	for rows.Next() {
		var reference string
		var n int
		if err := rows.Scan(&reference, &n); err != nil {
			r.tb.Fatal(err)
		}
		found[reference] = n
	}
	if err := rows.Err(); err != nil {
		r.tb.Fatal(err)
	}
	return found
}

func (r *rig) balance(account string) int64 {
	r.tb.Helper()
	var balance int64
	if err := r.db.QueryRowContext(r.tb.Context(), `SELECT balance FROM ledger_accounts WHERE id = $1`, account).Scan(&balance); err != nil {
		r.tb.Fatal(err)
	}
	return balance
}
