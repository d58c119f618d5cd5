package gates

import (
	"crypto/rand"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/interceptor/idempotency"
)

// What every store is given: the keys that the client makes, and records as
// long as that of a debit in the demo.
var (
	debitFingerprint = dedup.FingerprintBytes([]byte("debit"))
	record           = make([]byte, 128)
	completion       = dedup.Completion{Record: record, Retention: time.Hour}
)

func keyOf(id string) dedup.Key { return dedup.Key{Scope: "tenant-1", Method: method, ID: id} }

func newKey() dedup.Key { return keyOf(idempotency.NewKey()) }

// claimRequest asks for an operation as an engine does.
func claimRequest(key dedup.Key) dedup.ClaimRequest {
	r := dedup.ClaimRequest{Key: key, Fingerprint: debitFingerprint, Lease: time.Minute, Retention: time.Hour}
	_, _ = rand.Read(r.Owner[:]) // never fails
	return r
}
