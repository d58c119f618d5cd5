package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/retrysafe/retrysafe/ledgerdemo/database"
	"github.com/retrysafe/retrysafe/ledgerdemo/demo"
)

const demoHelp = `Shows that a retried debit is never doubled.

Without a command, ledgerdemo runs its demonstration. It starts a ledger server
as a process of its own, with a database file in a temporary folder, and lets
clients debit accounts over TCP while everything breaks: responses are lost
after the commit, calls are refused in bursts, attempts time out, connections
are cut, and the server is killed and started again.

Then it audits the database. The exit status is 0 only where every acknowledged
debit stands in the ledger exactly once, none stands there twice, and all
entries sum to zero. It takes some seconds, listens on this machine only, and
leaves nothing behind.

With --store postgres://... three servers share a database, in a schema of the
run's own, clients go round them, and sessions of the database are terminated
too. With --store redis://... outcomes are in Redis, and the ledger knows no
keys. That is at most one execution at a time, and not exactly once: a server
that dies between a debit and its record leaves an outcome that nobody knows,
and the debit is made again. The run counts those, and its exit status is 0
where no debit stands in the ledger twice for any other reason.

What each half is good for shows when it is taken away:

  ledgerdemo -without retries   clients do not know what became of their debits
  ledgerdemo -without dedup     debits are made twice

To try it by hand, run the server in one terminal and the others in a second:

  ledgerdemo serve
  ledgerdemo accounts open --account alice --deposit 100.00
  ledgerdemo debit --account alice --amount 12.50 --key order-42
  ledgerdemo debit --account alice --amount 12.50 --key order-42
  ledgerdemo accounts entries --account alice`

type demoFlags struct {
	config        demo.Config
	store, ledger string
	without       []string
	json          bool
}

func (a *app) demoCommand() *cobra.Command {
	var f demoFlags
	c := &cobra.Command{
		Use:   "ledgerdemo",
		Short: "Shows that a retried debit is never doubled",
		Long:  demoHelp,
		Args:  noArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return a.demo(c, &f) },
	}
	c.Flags().SortFlags = false
	c.Flags().IntVar(&f.config.Operations, "operations", 2000, "how many debits to make")
	c.Flags().IntVar(&f.config.Clients, "clients", 16, "how many clients make them at once")
	c.Flags().IntVar(&f.config.Kills, "kills", 2, "how often to kill a server meanwhile; 3 with --store, unless said otherwise")
	c.Flags().StringVar(&f.store, "store", "", "keep ledger and outcomes on a server of PostgreSQL, postgres://..., or outcomes in Redis, redis://... (default: an SQLite file)")
	c.Flags().StringVar(&f.ledger, "ledger", "", "with --store redis://...: keep the ledger in postgres://... (default: an SQLite file)")
	c.Flags().IntVar(&f.config.Replicas, "replicas", 0, "how many servers share the work (default 1, and 3 with --store)")
	c.Flags().IntVar(&f.config.Terminations, "terminations", 0, "how often to terminate a session in PostgreSQL (default 10 there)")
	c.Flags().StringSliceVar(&f.without, "without", nil, `leave out "retries" (each debit gets one attempt) or "dedup" (the server executes every attempt)`)
	c.Flags().BoolVar(&f.json, "json", false, "print the figures as one JSON object, money in minor units")
	c.Flags().Uint64Var(&f.config.Seed, "seed", 1, "choose other amounts, accounts and faults")
	c.Flags().BoolVar(&f.config.Keep, "keep", false, "keep the database and the servers' log, and say where they are")
	return c
}

func (a *app) demo(c *cobra.Command, f *demoFlags) error {
	without, err := parseWithout(f.without, "retries", "dedup")
	if err != nil {
		return usage(c, err)
	}
	f.config.WithoutRetries, f.config.WithoutDedup = without["retries"], without["dedup"]
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, to start it as the server: %w", err)
	}
	f.config.Server = []string{self, "serve"}
	if err := cmp.Or(f.place(c), f.config.Validate()); err != nil {
		return usage(c, err)
	}
	progress, done := progressOn(a.stderr)
	f.config.Progress = progress
	result, err := demo.Run(c.Context(), f.config)
	done()
	if err != nil {
		return err
	}
	if err := a.report(result, f.json); err != nil {
		return err
	}
	if !result.OK() {
		return errNotOK
	}
	return nil
}

// place reads where ledger and outcomes are to be, and fills in what follows.
func (f *demoFlags) place(c *cobra.Command) error {
	var err error
	if f.store != "" {
		if f.config.Store, err = database.Parse(f.store); err != nil {
			return fmt.Errorf("--store: %w", err)
		}
	}
	if f.ledger != "" {
		if err := parseLedger(f.ledger, &f.config.Ledger); err != nil {
			return err
		}
	}
	f.fillIn(c.Flags().Changed)
	return nil
}

// fillIn sets what was not said to what suits the store.
func (f *demoFlags) fillIn(said func(flag string) bool) {
	c := &f.config
	servers := 1
	if !c.Store.IsZero() {
		servers = 3
		if !said("kills") {
			c.Kills = min(servers, max(c.Operations-1, 0))
		}
	}
	if !said("replicas") {
		c.Replicas = servers
	}
	if c.OnPostgreSQL() && !said("terminations") {
		c.Terminations = min(10, max(c.Operations-1, 0))
	}
}

func (a *app) report(r *demo.Result, asJSON bool) error {
	if !asJSON {
		fmt.Fprintln(a.stdout)
		if err := r.WriteTable(a.stdout); err != nil {
			return err
		}
		fmt.Fprintln(a.stdout)
		return r.WriteVerdict(a.stdout)
	}
	if err := json.NewEncoder(a.stdout).Encode(r); err != nil {
		return err
	}
	return r.WriteVerdict(a.stderr)
}

// parseWithout reads the values of --without.
func parseWithout(values []string, allowed ...string) (map[string]bool, error) {
	set := make(map[string]bool, len(values))
	for _, v := range values {
		if !slices.Contains(allowed, v) {
			return nil, fmt.Errorf("--without: %q is not one of %s", v, strings.Join(allowed, ", "))
		}
		set[v] = true
	}
	return set, nil
}

// progressOn returns a progress bar where w is a terminal, and plain lines
// where it is not; and what to call at the end.
func progressOn(w io.Writer) (demo.Progress, func()) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return demo.NewLines(w), func() {}
	}
	bar := demo.NewBar(w, func() int {
		width, _, err := term.GetSize(int(f.Fd()))
		if err != nil {
			return 80
		}
		return width
	})
	return bar, bar.Close
}
