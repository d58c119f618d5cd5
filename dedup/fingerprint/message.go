package fingerprint

import (
	"crypto/sha256"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/retrysafe/retrysafe/dedup"
)

const domain = "retrysafe-fingerprint-v1\x00"

// Message returns the fingerprint of m.
func Message(m proto.Message) (dedup.Fingerprint, error) {
	b, err := proto.MarshalOptions{Deterministic: true, AllowPartial: true}.MarshalAppend([]byte(domain), m)
	if err != nil {
		return dedup.Fingerprint{}, fmt.Errorf("fingerprint: %w", err)
	}
	return dedup.Fingerprint{Version: dedup.FingerprintProto, Sum: sha256.Sum256(b)}, nil
}
