package dedup

import (
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"strconv"
)

// Key is the identity of an operation. Two calls are attempts of one operation
// where all three parts are equal: the same ID under another method or in
// another scope is another operation.
//
// A Key never shows its ID: String and LogValue give the method alone, so that
// no log line or error message can carry it by accident.
type Key struct {
	// Scope separates tenants. It comes from what the server knows of its
	// caller, never from what the caller claims. Empty is a scope too.
	Scope string
	// Method is what would be executed: a full gRPC method such as
	// "/ledger.v1.LedgerService/Debit", or the name of a consumer.
	Method string
	// ID is the idempotency key.
	ID string
}

// String returns the method, and nothing of the scope or the ID.
func (k Key) String() string { return k.Method }

// GoString is String's twin for %#v.
func (k Key) GoString() string { return "dedup.Key{Method:" + k.Method + "}" }

// LogValue implements [slog.LogValuer] as String does.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.Method) }

// FingerprintVersion says which canonical form a [Fingerprint] was made of.
type FingerprintVersion uint8

// Fingerprint identifies what an operation asks for, so that a key that comes
// back with another request is noticed. Fingerprints are compared with ==.
//
// The zero Fingerprint stands for requests that are not compared.
type Fingerprint struct {
	Version FingerprintVersion
	Sum     [sha256.Size]byte
}

// FingerprintBytes is the fingerprint of a request that is already in a
// canonical form, such as the payload of a queued message. Its version is
// [FingerprintRaw].
func FingerprintBytes(request []byte) Fingerprint {
	return Fingerprint{Version: FingerprintRaw, Sum: sha256.Sum256(request)}
}

// The canonical forms in use.
const (
	// FingerprintRaw is SHA-256 over the bytes as they came.
	FingerprintRaw FingerprintVersion = 1
	// FingerprintProto is SHA-256 over the canonical form of a protobuf
	// message, as package fingerprint makes it.
	FingerprintProto FingerprintVersion = 2
)

// String returns the version and the first four bytes of the sum.
func (f Fingerprint) String() string {
	return "v" + strconv.Itoa(int(f.Version)) + ":" + hex.EncodeToString(f.Sum[:4])
}
