package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	ledgerv1 "github.com/retrysafe/retrysafe/gen/ledger/v1"
	"github.com/retrysafe/retrysafe/ledgerdemo/currency"
)

const debitHelp = `Takes money from an account, once.

The call is retried under one idempotency key where it fails in a way that may
pass. Given again with the same key, the command gets the first answer again
and nothing is debited; with the same key and another amount or account it is
refused. Without --key it makes a new one, and prints it.`

type debitFlags struct {
	client                               clientFlags
	key                                  keyFlag
	account, amount, currency, reference string
}

func (a *app) debitCommand() *cobra.Command {
	var f debitFlags
	c := &cobra.Command{
		Use:   "debit",
		Short: "Take money from an account, once",
		Long:  debitHelp,
		Example: `  ledgerdemo debit --account alice --amount 12.50
  ledgerdemo debit --account alice --amount 12.50 --key order-42 --reference "invoice 7"`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.debit(c, &f) },
	}
	c.Flags().SortFlags = false
	c.Flags().StringVar(&f.account, "account", "", "account to debit (required)")
	c.Flags().StringVar(&f.amount, "amount", "", "how much, such as 12.50 (required)")
	c.Flags().StringVar(&f.currency, "currency", "EUR", "ISO 4217 code of the amount's currency")
	c.Flags().StringVar(&f.reference, "reference", "", "your own name for the payment, kept with the entry")
	f.key.register(c)
	f.client.register(c)
	return c
}

func (a *app) debit(c *cobra.Command, f *debitFlags) error {
	if f.account == "" {
		return usage(c, errors.New("--account is missing"))
	}
	amount, err := parseMoney("--amount", f.amount, f.currency)
	if err != nil {
		return usage(c, err)
	}
	if err := f.key.check(c); err != nil {
		return err
	}
	call, err := a.dial(c, f.client)
	if err != nil {
		return err
	}
	defer call.conn.Close()
	ctx, cancel := context.WithTimeout(c.Context(), f.client.timeout)
	defer cancel()
	ctx, key := f.key.withKey(ctx)
	res, err := call.ledger.Debit(ctx, &ledgerv1.DebitRequest{AccountId: f.account, Amount: amount, Reference: f.reference})
	if err != nil {
		return call.explain(err, key)
	}
	e := res.GetEntry()
	if call.replayed() {
		fmt.Fprintln(a.stdout, "replayed: an earlier attempt under this key did it; nothing was debited again")
	}
	fmt.Fprintf(a.stdout, "debited %s from %s, balance %s\n",
		currency.Format(-e.GetAmount().GetMinorUnits(), e.GetAmount().GetCurrency()), e.GetAccountId(), format(e.GetBalanceAfter()))
	fmt.Fprintf(a.stdout, "entry %d, %s, key %s\n", e.GetEntryId(), call.tries(), key)
	return nil
}

func parseMoney(flag, amount, code string) (*ledgerv1.Money, error) {
	if amount == "" {
		return nil, fmt.Errorf("%s is missing", flag)
	}
	n, err := currency.Parse(amount, code)
	if errors.Is(err, currency.ErrUnknown) {
		flag = "--currency"
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s", flag, strings.TrimPrefix(err.Error(), "currency: "))
	}
	return &ledgerv1.Money{Currency: code, MinorUnits: n}, nil
}

func format(m *ledgerv1.Money) string {
	return currency.Format(m.GetMinorUnits(), m.GetCurrency())
}
