package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// longFlags lets flags with a long name begin with one dash, as Go's own do:
// "-json" is what "--json" is. A single dash before several letters otherwise
// means as many short flags, of which there is none but -h.
func longFlags(args []string, root *cobra.Command) []string {
	names := map[string]bool{"help": true}
	collect(root, names)
	out := make([]string, len(args))
	for i, arg := range args {
		if arg == "--" {
			copy(out[i:], args[i:])
			break
		}
		out[i] = arg
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		if len(arg) > 2 && arg[0] == '-' && names[name] {
			out[i] = "-" + arg
		}
	}
	return out
}

func collect(c *cobra.Command, names map[string]bool) {
	c.Flags().VisitAll(func(f *pflag.Flag) { names[f.Name] = true })
	c.PersistentFlags().VisitAll(func(f *pflag.Flag) { names[f.Name] = true })
	for _, sub := range c.Commands() {
		collect(sub, names)
	}
}
