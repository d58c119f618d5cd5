package demo_test

import (
	"fmt"
	"os"

	"github.com/retrysafe/retrysafe/ledgerdemo/audit"
	"github.com/retrysafe/retrysafe/ledgerdemo/demo"
)

func ExampleResult_WriteVerdict() {
	r := &demo.Result{Audit: &audit.Report{Doubled: 1, Findings: []string{"debits that stand in the ledger more than once: 1"}}}
	if err := r.WriteVerdict(os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// NOT OK:
	//   debits that stand in the ledger more than once: 1
}
