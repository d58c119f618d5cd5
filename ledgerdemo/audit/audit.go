package audit

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/retrysafe/retrysafe/ledgerdemo/currency"
)

// Debit is a debit that a client asked for.
type Debit struct {
	// Reference is unique among the debits asked for.
	Reference  string
	Account    string
	MinorUnits int64
	// Acknowledged: the client was told that it was made.
	Acknowledged bool
}

// Expectation is what clients know.
type Expectation struct {
	// Currency is that of every account and debit.
	Currency string
	// Opening is the balance of each account that debits are taken from,
	// before the first.
	Opening map[string]int64
	Debits  []Debit
	// MayRepeat is how often a debit was executed again because nobody knew
	// whether it had been before. So many repeats are no finding. It is 0 where
	// effect and outcome are one transaction.
	MayRepeat int
}

// Report is what the database says.
type Report struct {
	// Executions counts the debits that stand in the ledger.
	Executions int
	// Doubled counts the debits asked for that stand there more than once.
	Doubled int
	// Repeats counts the times that they stand there beyond the first.
	Repeats int
	// Lost counts the debits that were acknowledged and do not stand there.
	Lost int
	// Unanswered counts the debits that stand there and were not
	// acknowledged.
	Unanswered int
	// BalanceExpected is what all accounts together should hold, in minor
	// units: the opening balances less every debit that was acknowledged.
	BalanceExpected int64
	// BalanceFound is what they hold.
	BalanceFound int64
	// Findings says in words everything that should not be so.
	Findings []string

	// repeated is the money that the repeats took.
	repeated int64
}

// OK reports whether every acknowledged debit stands in the ledger, exactly
// once but for what [Expectation.MayRepeat] allows, no other one stands there,
// and the ledger's books are in order.
func (r *Report) OK() bool { return len(r.Findings) == 0 }

func (r *Report) find(format string, args ...any) {
	r.Findings = append(r.Findings, fmt.Sprintf(format, args...))
}

// Run audits the database that [Open] has opened. It reads one consistent state
// of it and changes nothing. An error says that the audit could not be made.
func Run(ctx context.Context, db *sql.DB, want Expectation) (*Report, error) {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	defer tx.Rollback() // it has nothing to commit
	r := &Report{}
	for _, check := range []func(context.Context, *sql.Tx) error{
		func(ctx context.Context, tx *sql.Tx) error { return r.debits(ctx, tx, want) },
		func(ctx context.Context, tx *sql.Tx) error { return r.balance(ctx, tx, want) },
		r.books,
	} {
		if err := check(ctx, tx); err != nil {
			return nil, fmt.Errorf("audit: %w", err)
		}
	}
	return r, nil
}

// standing is a debit as it stands in the ledger.
type standing struct {
	times int
	// altered: one of them is of another account or amount.
	altered bool
}

func (r *Report) debits(ctx context.Context, tx *sql.Tx, want Expectation) error {
	asked := make(map[string]Debit, len(want.Debits))
	for _, d := range want.Debits {
		asked[d.Reference] = d
	}
	found, unasked, err := r.readDebits(ctx, tx, asked)
	if err != nil {
		return err
	}
	altered := 0
	for _, d := range want.Debits {
		s := found[d.Reference]
		if s.times > 1 {
			r.Doubled++
			r.Repeats += s.times - 1
			r.repeated += int64(s.times-1) * d.MinorUnits
		}
		switch {
		case s.times == 0 && d.Acknowledged:
			r.Lost++
		case s.times > 0 && !d.Acknowledged:
			r.Unanswered++
		}
		if s.altered {
			altered++
		}
	}
	if r.Repeats > want.MayRepeat {
		r.count(r.Doubled, "stand in the ledger more than once")
		r.excuse(want)
	}
	r.count(r.Lost, "were acknowledged and do not stand in the ledger")
	r.count(r.Unanswered, "stand in the ledger, and their clients were told of a failure")
	r.count(altered, "stand in the ledger with another account or amount")
	r.count(unasked, "stand in the ledger, and no client asked for them")
	return nil
}

// excuse says of repeats that some of them are nobody's fault.
func (r *Report) excuse(want Expectation) {
	if want.MayRepeat > 0 {
		r.find("debits were made again %d times, and only %d times was the outcome of the time before unknown", r.Repeats, want.MayRepeat)
	}
}

func (r *Report) count(n int, what string) {
	if n > 0 {
		r.find("debits that %s: %d", what, n)
	}
}

func (r *Report) readDebits(ctx context.Context, tx *sql.Tx, asked map[string]Debit) (found map[string]standing, unasked int, err error) {
	rows, err := tx.QueryContext(ctx, `
		SELECT t.reference, coalesce(e.account_id, ''), coalesce(e.amount, 0)
		FROM ledger_transactions t
		LEFT JOIN ledger_entries e ON e.transaction_id = t.id AND e.account_id NOT LIKE 'settlement:%'
		WHERE t.kind = 'debit'`)
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	found = make(map[string]standing, len(asked))
	for rows.Next() {
		var reference, account string
		var amount int64
		if err := rows.Scan(&reference, &account, &amount); err != nil {
			return nil, 0, err
		}
		r.Executions++
		d, ok := asked[reference]
		if !ok {
			unasked++
			continue
		}
		s := found[reference]
		s.times++
		s.altered = s.altered || account != d.Account || amount != -d.MinorUnits
		found[reference] = s
	}
	return found, unasked, rows.Err()
}

func (r *Report) balance(ctx context.Context, tx *sql.Tx, want Expectation) error {
	for account, opening := range want.Opening {
		r.BalanceExpected += opening
		var found int64
		err := tx.QueryRowContext(ctx, `SELECT balance FROM ledger_accounts WHERE id = $1`, account).Scan(&found)
		if err != nil && err != sql.ErrNoRows {
			return err
		}
		r.BalanceFound += found
	}
	for _, d := range want.Debits {
		if d.Acknowledged {
			r.BalanceExpected -= d.MinorUnits
		}
	}
	excused := int64(0)
	if r.Repeats <= want.MayRepeat {
		excused = r.repeated
	}
	if r.BalanceFound != r.BalanceExpected-excused {
		r.find("the accounts hold %s, their owners count on %s",
			currency.Format(r.BalanceFound, want.Currency), currency.Format(r.BalanceExpected, want.Currency))
	}
	return nil
}
