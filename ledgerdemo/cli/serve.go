package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/redisstore"
	"github.com/retrysafe/retrysafe/ledgerdemo/database"
	"github.com/retrysafe/retrysafe/ledgerdemo/demo"
	"github.com/retrysafe/retrysafe/ledgerdemo/faults"
	"github.com/retrysafe/retrysafe/ledgerdemo/server"
)

const (
	defaultAddr = "127.0.0.1:7420"
	defaultFile = "ledger.db"
)

const serveHelp = `Serves the ledger over gRPC until it is interrupted (Ctrl-C, SIGTERM), and
then finishes the calls under way.

Debits and credits need an idempotency key; a repeat with the same key gets the
first answer again, also after the server was killed and started anew. The
ledger and the answers are in one SQLite file or, with --store postgres://...,
in a PostgreSQL database that any number of servers share. Both write a debit
and its answer in one transaction.

With --store redis://... the answers are in Redis, and the ledger is where
--ledger says. A server that is killed between a debit and its answer then
leaves a debit of which nobody knows, and a repeat debits once more, when the
lease has ended.

gRPC health checks and reflection are on, so that grpcurl and its like work
without the .proto files. There is no encryption and no authentication: keep it
on this machine. A PostgreSQL URL may leave its password to PGPASSWORD or to a
password file.

The flags under "faults" break debits on purpose; what is broken is told on
standard output.`

type serveFlags struct {
	config        server.Config
	store, ledger string
	without       []string
	level         slog.Level
	stopWithStdin bool
}

func (a *app) serveCommand() *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve the ledger",
		Long:  serveHelp,
		Example: `  ledgerdemo serve
  ledgerdemo serve --store /tmp/ledger.db --addr 127.0.0.1:0
  ledgerdemo serve --store postgres://localhost:5432/bank
  ledgerdemo serve --store redis://localhost:6379 --ledger postgres://localhost:5432/bank
  ledgerdemo serve --lose-responses 0.5`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.serve(c, &f) },
	}
	c.Flags().SortFlags = false
	c.Flags().StringVar(&f.config.Addr, "addr", defaultAddr, "TCP address to listen on; port 0 takes any free port")
	c.Flags().StringVar(&f.store, "store", defaultFile, "where answers are kept, and the ledger with them: postgres://..., redis://..., or an SQLite file, created where it does not exist")
	c.Flags().StringVar(&f.ledger, "ledger", "", "where the ledger is, with --store redis://...: postgres://... or an SQLite file (default \""+defaultFile+"\")")
	c.Flags().StringVar(&f.config.Prefix, "prefix", "", "what the names of all keys in Redis begin with (default \""+redisstore.DefaultPrefix+"\")")
	c.Flags().DurationVar(&f.config.Lease, "lease", dedup.DefaultLease, "with --store redis://...: how long an operation stays blocked after its server died")
	c.Flags().StringSliceVar(&f.without, "without", nil, `leave out "dedup": then every attempt executes`)
	c.Flags().TextVar(&f.level, "log-level", slog.LevelInfo, "log to standard error from this `level` on: DEBUG, INFO, WARN or ERROR")
	c.Flags().BoolVar(&f.stopWithStdin, "stop-with-stdin", false, "stop when standard input ends, for programs that start this one")
	c.Flags().Float64Var(&f.config.Faults.LoseResponses, "lose-responses", 0, "faults: share of debits, 0 to 1, whose response is lost after the commit")
	c.Flags().Float64Var(&f.config.Faults.SlowAttempts, "slow-attempts", 0, "faults: share of debits, 0 to 1, that are held up")
	c.Flags().DurationVar(&f.config.Faults.SlowBy, "slow-by", 0, "faults: by how much, such as 2s")
	c.Flags().Float64Var(&f.config.Faults.HoldRecords, "hold-records", 0, "faults: share of debits, 0 to 1, that are held up between the debit and the record of its answer")
	c.Flags().DurationVar(&f.config.Faults.HoldBy, "hold-by", 0, "faults: by how much, such as 200ms")
	c.Flags().IntVar(&f.config.Faults.BurstEvery, "burst-every", 0, "faults: of every so many debits ...")
	c.Flags().IntVar(&f.config.Faults.BurstLength, "burst-length", 0, "faults: ... refuse so many in a row, before they are executed")
	c.Flags().Uint64Var(&f.config.Faults.Seed, "seed", 0, "faults: choose other debits")
	return c
}

func (a *app) serve(c *cobra.Command, f *serveFlags) error {
	without, err := parseWithout(f.without, "dedup")
	if err != nil {
		return usage(c, err)
	}
	if err := errors.Join(f.place(c), f.config.Faults.Validate()); err != nil {
		return usage(c, err)
	}
	f.config.WithoutDedup = without["dedup"]
	f.config.Logger = slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: f.level}))
	f.config.OnFault = func(k faults.Kind) { fmt.Fprintln(a.stdout, demo.FaultPrefix+k.String()) }
	f.config.OnUnknown = func() { fmt.Fprintln(a.stdout, demo.UnknownLine) }
	ctx := c.Context()
	if f.stopWithStdin {
		ctx = endsWith(ctx, a.stdin)
	}
	return server.Run(ctx, f.config, func(addr net.Addr) {
		fmt.Fprintln(a.stdout, demo.ListeningPrefix+addr.String())
	})
}

// place reads where everything is.
func (f *serveFlags) place(c *cobra.Command) error {
	var err error
	if f.config.Store, err = database.Parse(f.store); err != nil {
		return fmt.Errorf("--store: %w", err)
	}
	if f.config.Store.Kind != database.Redis {
		return onlyWithRedis(c, "ledger", "prefix", "lease")
	}
	if f.config.Lease <= 0 {
		return fmt.Errorf("--lease: %v is not positive", f.config.Lease)
	}
	return parseLedger(cmp.Or(f.ledger, defaultFile), &f.config.Ledger)
}

// parseLedger reads --ledger.
func parseLedger(text string, into *database.URL) error {
	at, err := database.Parse(text)
	if err == nil && at.Kind == database.Redis {
		err = errors.New("a ledger is not kept in Redis")
	}
	if err != nil {
		return fmt.Errorf("--ledger: %w", err)
	}
	*into = at
	return nil
}

// onlyWithRedis refuses flags that mean nothing without Redis.
func onlyWithRedis(c *cobra.Command, flags ...string) error {
	for _, name := range flags {
		if c.Flags().Changed(name) {
			return fmt.Errorf("--%s: is for --store redis://... alone", name)
		}
	}
	return nil
}

// endsWith returns a context that ends when r does. What reads r until then
// lives as long as this process: a pipe's end comes with its writer's death.
func endsWith(ctx context.Context, r io.Reader) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, r) // whatever ends it, it has ended
	}()
	return ctx
}
