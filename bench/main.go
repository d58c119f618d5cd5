// Command bench measures what retrysafe promises of its speed, beside what
// people use or would write instead, and ends with status 1 where a promise is
// not kept.
//
//	make bench                      # everything, with the servers that it takes
//	make bench BENCH=postgres       # the gates that match
//	make bench SHORT=1              # fewer and shorter rounds, less data
//
// It is a module of its own, so that nobody who uses retrysafe inherits what it
// is compared with.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"syscall"
	"time"

	"github.com/retrysafe/retrysafe/bench/internal/gates"
	"github.com/retrysafe/retrysafe/bench/internal/measure"
)

var (
	errNoGate = errors.New("no gate matches -run; -list shows them")
	errFailed = errors.New("a gate failed")
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case err == nil:
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// settings are what the flags say.
type settings struct {
	plan measure.Plan
	run  *regexp.Regexp
	list bool
}

func parse(args []string, usage io.Writer) (settings, error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(usage)
	pattern := flags.String("run", ".", "run the gates whose names match this `regexp`")
	list := flags.Bool("list", false, "list the gates and run none")
	short := flags.Bool("short", false, "fewer and shorter rounds, and a tenth of the data: to see that it works, not how fast")
	rounds := flags.Int("rounds", 15, "how often those that are compared take turns")
	round := flags.Duration("round", 200*time.Millisecond, "how long each of them runs every time, cut into many where nothing but the processor is waited for")
	if err := flags.Parse(args); err != nil {
		return settings{}, err
	}
	if flags.NArg() > 0 {
		return settings{}, fmt.Errorf("there is nothing to say but flags: %q", flags.Args())
	}
	re, err := regexp.Compile(*pattern)
	if err != nil {
		return settings{}, fmt.Errorf("-run: %w", err)
	}
	if *rounds < 1 || *round < time.Millisecond {
		return settings{}, errors.New("-rounds is 1 at least, and -round 1ms")
	}
	plan := measure.Plan{Rounds: *rounds, Round: *round, Short: *short}
	if *short {
		plan.Rounds, plan.Round = min(plan.Rounds, 5), min(plan.Round, 40*time.Millisecond)
	}
	return settings{plan, re, *list}, nil
}

func run(ctx context.Context, args []string, out, progress io.Writer) (err error) {
	s, err := parse(args, progress)
	if err != nil {
		return err
	}
	selected := s.gates()
	if len(selected) == 0 {
		return errNoGate
	}
	if s.list {
		for _, gate := range selected {
			fmt.Fprintln(out, gate.Name)
		}
		return nil
	}
	m := gates.NewMachine(s.plan)
	defer func() { err = errors.Join(err, m.Close()) }()
	return judge(ctx, m, selected, out, progress)
}

func (s settings) gates() []gates.Gate {
	var selected []gates.Gate
	for _, gate := range gates.All() {
		if s.run.MatchString(gate.Name) {
			selected = append(selected, gate)
		}
	}
	return selected
}

// judge runs the gates and writes the table, of as many as there was time for.
func judge(ctx context.Context, m *gates.Machine, selected []gates.Gate, out, progress io.Writer) error {
	fmt.Fprintf(out, "%s, %s/%s, %d CPUs, %d rounds of %v\n\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), m.Plan.Rounds, m.Plan.Round)
	table := measure.NewTable(out)
	for i, gate := range selected {
		if ctx.Err() != nil {
			break
		}
		fmt.Fprintf(progress, "%d of %d: %s\n", i+1, len(selected), gate.Name)
		findings, err := gate.Run(ctx, m)
		table.Add(gate.Name, findings, err)
	}
	failed, err := table.Close()
	if err == nil && failed > 0 {
		err = fmt.Errorf("%w: %d figures", errFailed, failed)
	}
	return errors.Join(ctx.Err(), err)
}
