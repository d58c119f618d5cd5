package audit

import (
	"context"
	"database/sql"
	"math/big"
)

// book is what one pass over the entries adds up. The sums are big: that a sum
// leaves 64 bits must not hide what it is.
type book struct {
	currencies map[string]*big.Int
	accounts   map[string]*big.Int
	// broken counts entries whose balance is not the sum up to there.
	broken int
}

// books checks what holds for every ledger, whatever was asked of it.
func (r *Report) books(ctx context.Context, tx *sql.Tx) error {
	var unbalanced int
	err := tx.QueryRowContext(ctx, `
		SELECT count(*) FROM (
			SELECT t.id FROM ledger_transactions t LEFT JOIN ledger_entries e ON e.transaction_id = t.id
			GROUP BY t.id
			HAVING count(e.id) <> 2 OR min(e.amount) <> -max(e.amount) OR min(e.amount) >= 0
		) AS unbalanced`).Scan(&unbalanced)
	if err != nil {
		return err
	}
	if unbalanced > 0 {
		r.find("transactions without two entries that sum to zero: %d", unbalanced)
	}
	b, err := readBook(ctx, tx)
	if err != nil {
		return err
	}
	if b.broken > 0 {
		r.find("entries whose balance is not the sum of the entries up to them: %d", b.broken)
	}
	for code, sum := range b.currencies {
		if sum.Sign() != 0 {
			r.find("all entries in %s sum to %v, not to zero", code, sum)
		}
	}
	return r.accounts(ctx, tx, b)
}

func readBook(ctx context.Context, tx *sql.Tx) (*book, error) {
	rows, err := tx.QueryContext(ctx, `
		SELECT e.account_id, coalesce(a.currency, ''), e.amount, e.balance_after
		FROM ledger_entries e LEFT JOIN ledger_accounts a ON a.id = e.account_id ORDER BY e.id`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	b := &book{currencies: map[string]*big.Int{}, accounts: map[string]*big.Int{}}
	for rows.Next() {
		var account, code string
		var amount, after int64
		if err := rows.Scan(&account, &code, &amount, &after); err != nil {
			return nil, err
		}
		add(b.currencies, code, amount)
		if add(b.accounts, account, amount).Cmp(big.NewInt(after)) != 0 {
			b.broken++
		}
	}
	return b, rows.Err()
}

func add(sums map[string]*big.Int, name string, amount int64) *big.Int {
	sum, ok := sums[name]
	if !ok {
		sum = new(big.Int)
		sums[name] = sum
	}
	return sum.Add(sum, big.NewInt(amount))
}

// accounts checks that each account holds the sum of its entries.
func (r *Report) accounts(ctx context.Context, tx *sql.Tx, b *book) error {
	rows, err := tx.QueryContext(ctx, `SELECT id, balance FROM ledger_accounts`)
	if err != nil {
		return err
	}
	defer rows.Close()
	wrong := 0
	for rows.Next() {
		var id string
		var balance int64
		if err := rows.Scan(&id, &balance); err != nil {
			return err
		}
		if add(b.accounts, id, 0).Cmp(big.NewInt(balance)) != 0 {
			wrong++
		}
	}
	if wrong > 0 {
		r.find("accounts that do not hold the sum of their entries: %d", wrong)
	}
	return rows.Err()
}
