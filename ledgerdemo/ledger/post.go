package ledger

import (
	"context"
	"errors"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/retrysafe/retrysafe/gen/ledger/v1"
)

const kindCustomer, kindSettlement = "customer", "settlement"

// account is a row of ledger_accounts.
type account struct {
	id, kind, currency string
	balance            int64
	opened             time.Time
}

func findAccount(ctx context.Context, c Conn, id string) (a account, found bool, err error) {
	var opened int64
	found, err = c.One(ctx, `SELECT kind, currency, balance, opened_at FROM ledger_accounts WHERE id = $1`,
		[]any{id}, &a.kind, &a.currency, &a.balance, &opened)
	a.id, a.opened = id, time.UnixMicro(opened)
	return a, found, err
}

func loadAccount(ctx context.Context, c Conn, id string) (account, error) {
	a, found, err := findAccount(ctx, c, id)
	if err == nil && !found {
		err = accountNotFound(id)
	}
	return a, err
}

// openAccount opens a customer's account, and the settlement account of its
// currency where this is the first.
func openAccount(ctx context.Context, c Conn, a account) error {
	const insert = `INSERT INTO ledger_accounts (id, kind, currency, opened_at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`
	n, err := c.Exec(ctx, insert, a.id, a.kind, a.currency, a.opened.UnixMicro())
	if err != nil {
		return err
	}
	if n == 0 {
		return accountExists(a.id)
	}
	_, err = c.Exec(ctx, insert, SettlementAccount(a.currency), kindSettlement, a.currency, a.opened.UnixMicro())
	return err
}

// post moves money: it checks the rules, changes both balances and writes both
// entries. It returns the entry on the account that the money left and the one
// on the account that it reached.
func post(ctx context.Context, c Conn, m movement, now time.Time) (from, to *ledgerv1.Entry, err error) {
	if err := allow(ctx, c, m); err != nil {
		return nil, nil, err
	}
	after, err := move(ctx, c, m)
	if err != nil {
		return nil, nil, err
	}
	var id int64
	if _, err := c.One(ctx, `INSERT INTO ledger_transactions (kind, currency, reference, posted_at)
		VALUES ($1, $2, $3, $4) RETURNING id`,
		[]any{nameOfKind(m.kind), m.currency, m.reference, now.UnixMicro()}, &id); err != nil {
		return nil, nil, err
	}
	entry := func(account, counter string, amount int64) *ledgerv1.Entry {
		return &ledgerv1.Entry{
			TransactionId:    id,
			AccountId:        account,
			CounterAccountId: counter,
			Kind:             m.kind,
			Amount:           money(amount, m.currency),
			BalanceAfter:     money(after[account], m.currency),
			Reference:        m.reference,
			PostTime:         timestamppb.New(now.Truncate(time.Microsecond)),
		}
	}
	from, to = entry(m.from, m.to, -m.amount), entry(m.to, m.from, m.amount)
	if err := insertEntry(ctx, c, from); err != nil {
		return nil, nil, err
	}
	return from, to, insertEntry(ctx, c, to)
}

// allow checks the rules in the order in which they are answered: both
// accounts exist, both hold the currency, the money is there, and it fits.
func allow(ctx context.Context, c Conn, m movement) error {
	from, err := loadParty(ctx, c, m.from, m)
	if err != nil {
		return err
	}
	to, err := loadParty(ctx, c, m.to, m)
	if err != nil {
		return err
	}
	for _, a := range []account{from, to} {
		if a.currency != m.currency {
			return currencyMismatch(a.currency)
		}
	}
	if from.kind == kindCustomer && from.balance < m.amount {
		return insufficientFunds(m.amount-from.balance, m.currency)
	}
	if from.balance < math.MinInt64+m.amount || to.balance > math.MaxInt64-m.amount {
		return balanceLimit()
	}
	return nil
}

// loadParty loads one side of a movement. A settlement account is missing
// where nobody holds the currency: then the customer's account is what the
// answer is about, which is missing too or holds another currency.
func loadParty(ctx context.Context, c Conn, id string, m movement) (account, error) {
	if id != SettlementAccount(m.currency) {
		return loadAccount(ctx, c, id)
	}
	a, found, err := findAccount(ctx, c, id)
	if err == nil && !found {
		a = account{id: id, kind: kindSettlement, currency: m.currency}
	}
	return a, err
}

// errMoved: a balance changed between the check and the update. SQLite has one
// writer and rules it out; where a database has many, it is tried again.
var errMoved = errors.New("ledger: the balance changed while it was used")

// move changes both balances, in the order of the names so that two transfers
// between the same accounts never wait for each other, and returns them.
func move(ctx context.Context, c Conn, m movement) (map[string]int64, error) {
	legs := []struct {
		id    string
		delta int64
	}{{m.from, -m.amount}, {m.to, m.amount}}
	if legs[1].id < legs[0].id {
		legs[0], legs[1] = legs[1], legs[0]
	}
	after := make(map[string]int64, len(legs))
	for _, leg := range legs {
		var balance int64
		found, err := c.One(ctx, `UPDATE ledger_accounts SET balance = balance + $1
			WHERE id = $2 AND (kind = 'settlement' OR balance + $1 >= 0) RETURNING balance`,
			[]any{leg.delta, leg.id}, &balance)
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, errMoved
		}
		after[leg.id] = balance
	}
	return after, nil
}

func insertEntry(ctx context.Context, c Conn, e *ledgerv1.Entry) error {
	_, err := c.One(ctx, `INSERT INTO ledger_entries (transaction_id, account_id, counter_account_id, amount, balance_after)
		VALUES ($1, $2, $3, $4, $5) RETURNING id`,
		[]any{e.TransactionId, e.AccountId, e.CounterAccountId, e.Amount.MinorUnits, e.BalanceAfter.MinorUnits}, &e.EntryId)
	return err
}

func money(minorUnits int64, code string) *ledgerv1.Money {
	return &ledgerv1.Money{Currency: code, MinorUnits: minorUnits}
}
