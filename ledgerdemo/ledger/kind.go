package ledger

import (
	"fmt"

	ledgerv1 "github.com/retrysafe/retrysafe/gen/ledger/v1"
)

// nameOfKind is how the database writes a kind of entry.
func nameOfKind(k ledgerv1.EntryKind) string {
	switch k {
	case ledgerv1.EntryKind_ENTRY_KIND_DEBIT:
		return "debit"
	case ledgerv1.EntryKind_ENTRY_KIND_CREDIT:
		return "credit"
	case ledgerv1.EntryKind_ENTRY_KIND_TRANSFER:
		return "transfer"
	}
	return fmt.Sprintf("kind_%d", k)
}

// kindOfName is nameOfKind's inverse.
func kindOfName(name string) (ledgerv1.EntryKind, error) {
	for n := range ledgerv1.EntryKind_name {
		if k := ledgerv1.EntryKind(n); nameOfKind(k) == name {
			return k, nil
		}
	}
	return 0, fmt.Errorf("ledger: an entry has the unknown kind %q", name)
}
