package cli

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	ledgerv1 "github.com/retrysafe/retrysafe/gen/ledger/v1"
	"github.com/retrysafe/retrysafe/ledgerdemo/currency"
)

func (a *app) accountsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "accounts",
		Short: "Open accounts and look at them",
		Args:  noArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.openCommand(), a.showCommand(), a.entriesCommand())
	return c
}

type openFlags struct {
	client                     clientFlags
	key                        keyFlag
	account, currency, deposit string
}

func (a *app) openCommand() *cobra.Command {
	var f openFlags
	c := &cobra.Command{
		Use:     "open",
		Short:   "Open an account",
		Long:    "Opens an account and, with --deposit, puts money on it.",
		Example: `  ledgerdemo accounts open --account alice --currency EUR --deposit 100.00`,
		Args:    noArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.open(c, &f) },
	}
	c.Flags().SortFlags = false
	c.Flags().StringVar(&f.account, "account", "", "name of the account: letters, digits, dots, dashes, underscores (required)")
	c.Flags().StringVar(&f.currency, "currency", "EUR", "ISO 4217 code of what it holds")
	c.Flags().StringVar(&f.deposit, "deposit", "", "how much to put on it, such as 100.00 (default: nothing)")
	f.key.register(c)
	f.client.register(c)
	return c
}

func (a *app) open(c *cobra.Command, f *openFlags) error {
	if f.account == "" {
		return usage(c, errors.New("--account is missing"))
	}
	var deposit *ledgerv1.Money
	if f.deposit != "" {
		var err error
		if deposit, err = parseMoney("--deposit", f.deposit, f.currency); err != nil {
			return usage(c, err)
		}
		if deposit.GetMinorUnits() <= 0 {
			return usage(c, fmt.Errorf("--deposit: %s is not positive", f.deposit))
		}
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
	// One key serves both calls: an operation is its method and its key.
	ctx, key := f.key.withKey(ctx)
	opened, err := call.ledger.OpenAccount(ctx, &ledgerv1.OpenAccountRequest{AccountId: f.account, Currency: f.currency})
	if err != nil {
		return call.explain(err, key)
	}
	fmt.Fprintf(a.stdout, "opened %s in %s%s\n", opened.GetAccount().GetAccountId(), opened.GetAccount().GetBalance().GetCurrency(), call.again())
	if deposit == nil {
		return nil
	}
	credited, err := call.ledger.Credit(ctx, &ledgerv1.CreditRequest{AccountId: f.account, Amount: deposit, Reference: "deposit"})
	if err != nil {
		return fmt.Errorf("the account is open; its deposit: %w", call.explain(err, key))
	}
	fmt.Fprintf(a.stdout, "deposited %s, balance %s%s\n", format(credited.GetEntry().GetAmount()), format(credited.GetEntry().GetBalanceAfter()), call.again())
	return nil
}

func (c *caller) again() string {
	if c.replayed() {
		return " (replayed: an earlier attempt under this key did it)"
	}
	return ""
}

type showFlags struct {
	client  clientFlags
	account string
}

func (a *app) showCommand() *cobra.Command {
	var f showFlags
	c := &cobra.Command{
		Use:   "show",
		Short: "Show an account's balance",
		Example: `  ledgerdemo accounts show --account alice
  ledgerdemo accounts show --account settlement:EUR   # the other side of debits and credits`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.show(c, &f) },
	}
	c.Flags().SortFlags = false
	c.Flags().StringVar(&f.account, "account", "", "account to show (required)")
	f.client.register(c)
	return c
}

func (a *app) show(c *cobra.Command, f *showFlags) error {
	if f.account == "" {
		return usage(c, errors.New("--account is missing"))
	}
	call, err := a.dial(c, f.client)
	if err != nil {
		return err
	}
	defer call.conn.Close()
	ctx, cancel := context.WithTimeout(c.Context(), f.client.timeout)
	defer cancel()
	res, err := call.ledger.GetAccount(ctx, &ledgerv1.GetAccountRequest{AccountId: f.account})
	if err != nil {
		return call.explain(err, "")
	}
	account := res.GetAccount()
	fmt.Fprintf(a.stdout, "%s holds %s, open since %s\n", account.GetAccountId(), format(account.GetBalance()),
		account.GetOpenTime().AsTime().Format(time.RFC3339))
	return nil
}

type entriesFlags struct {
	client        clientFlags
	account, page string
	size          int32
}

func (a *app) entriesCommand() *cobra.Command {
	var f entriesFlags
	c := &cobra.Command{
		Use:     "entries",
		Aliases: []string{"list"},
		Short:   "List an account's entries",
		Long:    "Lists an account's entries in the order in which they were posted, a page at a time.",
		Example: `  ledgerdemo accounts entries --account alice --page-size 20`,
		Args:    noArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.entries(c, &f) },
	}
	c.Flags().SortFlags = false
	c.Flags().StringVar(&f.account, "account", "", "account to list (required)")
	c.Flags().Int32Var(&f.size, "page-size", 50, "how many entries to list, at most 1000")
	c.Flags().StringVar(&f.page, "page-token", "", "list the page that the one before ended with (default: the first)")
	f.client.register(c)
	return c
}

func (a *app) entries(c *cobra.Command, f *entriesFlags) error {
	if f.account == "" {
		return usage(c, errors.New("--account is missing"))
	}
	call, err := a.dial(c, f.client)
	if err != nil {
		return err
	}
	defer call.conn.Close()
	ctx, cancel := context.WithTimeout(c.Context(), f.client.timeout)
	defer cancel()
	res, err := call.ledger.ListEntries(ctx, &ledgerv1.ListEntriesRequest{AccountId: f.account, PageSize: f.size, PageToken: f.page})
	if err != nil {
		return call.explain(err, "")
	}
	if err := a.writeEntries(res.GetEntries()); err != nil {
		return err
	}
	if next := res.GetNextPageToken(); next != "" {
		fmt.Fprintf(a.stdout, "more: --page-token %s\n", next)
	}
	return nil
}

var kinds = map[ledgerv1.EntryKind]string{
	ledgerv1.EntryKind_ENTRY_KIND_DEBIT:    "debit",
	ledgerv1.EntryKind_ENTRY_KIND_CREDIT:   "credit",
	ledgerv1.EntryKind_ENTRY_KIND_TRANSFER: "transfer",
}

func (a *app) writeEntries(entries []*ledgerv1.Entry) error {
	t := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ENTRY\tPOSTED\tKIND\tAMOUNT\tBALANCE\tOTHER SIDE\tREFERENCE")
	for _, e := range entries {
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t%s\n", e.GetEntryId(), e.GetPostTime().AsTime().Format(time.RFC3339), kinds[e.GetKind()],
			currency.Format(e.GetAmount().GetMinorUnits(), e.GetAmount().GetCurrency()), format(e.GetBalanceAfter()),
			e.GetCounterAccountId(), e.GetReference())
	}
	return t.Flush()
}
