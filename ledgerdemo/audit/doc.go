// Package audit checks a ledger's database against what its clients know.
//
// It reads the ledger's own tables and nothing else: no counter of a client or
// a server, and no record of the deduplication. A debit is recognised by the
// business reference that its client chose, which the ledger keeps and does
// not check, so that a debit that was made twice stands there twice.
//
//	db, err := audit.Open(ctx, url)
//	report, err := audit.Run(ctx, db, expectation)
//	if !report.OK() { fmt.Println(report.Findings) }
package audit
