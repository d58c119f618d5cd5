// Command ledgerdemo shows that a retried debit is never doubled.
//
//	go run ./ledgerdemo            the demonstration, under faults
//	go run ./ledgerdemo --help     its flags and the commands for use by hand
package main

import (
	"os"

	"github.com/retrysafe/retrysafe/ledgerdemo/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
