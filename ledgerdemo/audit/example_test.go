package audit_test

import (
	"fmt"

	"github.com/retrysafe/retrysafe/ledgerdemo/audit"
)

func ExampleReport_OK() {
	var r audit.Report
	fmt.Println(r.OK())
	r.Findings = append(r.Findings, "debits that stand in the ledger more than once: 1")
	fmt.Println(r.OK())
	// Output:
	// true
	// false
}
