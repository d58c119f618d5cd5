package cli_test

import (
	"fmt"
	"os"
	"strings"

	"github.com/retrysafe/retrysafe/ledgerdemo/cli"
)

func ExampleMain() {
	status := cli.Main([]string{"debit", "-account", "alice", "-amount", "12.505"}, strings.NewReader(""), os.Stdout, os.Stdout)
	fmt.Println("status", status)
	// Output:
	// ledgerdemo: --amount: not an amount: "12.505": EUR has 2 decimals
	// Try "ledgerdemo debit --help".
	// status 2
}
