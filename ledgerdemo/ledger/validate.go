package ledger

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	ledgerv1 "github.com/retrysafe/retrysafe/gen/ledger/v1"
	"github.com/retrysafe/retrysafe/ledgerdemo/currency"
)

const (
	maxAccountID = 64
	maxReference = 140

	settlementPrefix = "settlement:"
)

const alphanumeric = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// SettlementAccount returns the name of the account on the other side of every
// debit and credit in that currency. A customer's account cannot have it.
func SettlementAccount(code string) string { return settlementPrefix + code }

// checkCustomer checks the name of an account that may be opened, debited and
// credited.
func checkCustomer(id string) error {
	switch {
	case id == "":
		return errors.New("is missing")
	case len(id) > maxAccountID:
		return fmt.Errorf("is longer than %d bytes", maxAccountID)
	case !strings.Contains(alphanumeric, id[:1]) || strings.Trim(id, alphanumeric+"._-") != "":
		return errors.New("takes letters, digits, dots, dashes and underscores, and begins with a letter or a digit")
	}
	return nil
}

// checkAccount checks the name of an account that may be read.
func checkAccount(id string) error {
	if code, ok := strings.CutPrefix(id, settlementPrefix); ok {
		return checkCurrency(code)
	}
	return checkCustomer(id)
}

func checkCurrency(code string) error {
	if code == "" {
		return errors.New("is missing")
	}
	if _, ok := currency.Digits(code); !ok {
		return errors.New("is not the code of an ISO 4217 currency in use, such as EUR")
	}
	return nil
}

func (v invalid) amount(m *ledgerv1.Money) {
	if m == nil {
		v.add("amount", errors.New("is missing"))
		return
	}
	v.add("amount.currency", checkCurrency(m.GetCurrency()))
	if m.GetMinorUnits() <= 0 {
		v.add("amount.minor_units", errors.New("is not positive"))
	}
}

func (v invalid) reference(ref string) {
	switch {
	case len(ref) > maxReference:
		v.add("reference", fmt.Errorf("is longer than %d bytes", maxReference))
	case !utf8.ValidString(ref) || strings.ContainsFunc(ref, unicode.IsControl):
		v.add("reference", errors.New("holds a control character or is not UTF-8"))
	}
}

// movement is what Debit, Credit and Transfer have in common: amount leaves
// from and reaches to.
type movement struct {
	kind      ledgerv1.EntryKind
	from, to  string
	amount    int64
	currency  string
	reference string
}

func debit(req *ledgerv1.DebitRequest) (movement, error) {
	v := invalid{}
	v.add("account_id", checkCustomer(req.GetAccountId()))
	v.amount(req.GetAmount())
	v.reference(req.GetReference())
	return movement{
		kind:      ledgerv1.EntryKind_ENTRY_KIND_DEBIT,
		from:      req.GetAccountId(),
		to:        SettlementAccount(req.GetAmount().GetCurrency()),
		amount:    req.GetAmount().GetMinorUnits(),
		currency:  req.GetAmount().GetCurrency(),
		reference: req.GetReference(),
	}, v.err()
}

func credit(req *ledgerv1.CreditRequest) (movement, error) {
	v := invalid{}
	v.add("account_id", checkCustomer(req.GetAccountId()))
	v.amount(req.GetAmount())
	v.reference(req.GetReference())
	return movement{
		kind:      ledgerv1.EntryKind_ENTRY_KIND_CREDIT,
		from:      SettlementAccount(req.GetAmount().GetCurrency()),
		to:        req.GetAccountId(),
		amount:    req.GetAmount().GetMinorUnits(),
		currency:  req.GetAmount().GetCurrency(),
		reference: req.GetReference(),
	}, v.err()
}

func transfer(req *ledgerv1.TransferRequest) (movement, error) {
	v := invalid{}
	v.add("from_account_id", checkCustomer(req.GetFromAccountId()))
	v.add("to_account_id", checkCustomer(req.GetToAccountId()))
	if req.GetFromAccountId() == req.GetToAccountId() {
		v.add("to_account_id", errors.New("is the same account as from_account_id"))
	}
	v.amount(req.GetAmount())
	v.reference(req.GetReference())
	return movement{
		kind:      ledgerv1.EntryKind_ENTRY_KIND_TRANSFER,
		from:      req.GetFromAccountId(),
		to:        req.GetToAccountId(),
		amount:    req.GetAmount().GetMinorUnits(),
		currency:  req.GetAmount().GetCurrency(),
		reference: req.GetReference(),
	}, v.err()
}
