package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit statuses.
const (
	exitOK     = 0
	exitFailed = 1 // the command failed, or the demonstration's checks do not hold
	exitUsage  = 2 // the command line is wrong
)

// Main runs the command line args, without the program's name, and returns the
// exit status. SIGINT and SIGTERM end what runs, in good order.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr}
	root := a.root()
	root.SetArgs(longFlags(args, root))
	err := root.ExecuteContext(ctx)
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errNotOK): // the report says why
		return exitFailed
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "ledgerdemo: %v\nTry \"%s --help\".\n", err, usage.command)
		return exitUsage
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "ledgerdemo: interrupted")
		if undecided := (*undecidedError)(nil); errors.As(err, &undecided) {
			fmt.Fprintln(stderr, undecided.advice())
		}
		return exitFailed
	}
	fmt.Fprintf(stderr, "ledgerdemo: %v\n", err)
	return exitFailed
}

// errNotOK: the demonstration was made, and its checks do not hold.
var errNotOK = errors.New("the checks do not hold")

// app is what the commands share.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
}

func (a *app) root() *cobra.Command {
	root := a.demoCommand()
	root.AddCommand(a.serveCommand(), a.debitCommand(), a.accountsCommand())
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return usageError{err, c.CommandPath()} })
	return root
}

// usageError is a mistake in the command line.
type usageError struct {
	error
	command string
}

func (e usageError) Unwrap() error { return e.error }

func usage(c *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	return usageError{err, c.CommandPath()}
}

// noArgs refuses arguments that are not flags.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usage(c, fmt.Errorf("%q is neither a command nor a flag", args[0]))
}
