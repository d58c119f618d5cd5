package redisstore

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"github.com/retrysafe/retrysafe/dedup"
)

// names are the keys of one operation. Their hash tag is a digest, so that
// they share a slot of Redis Cluster and show nothing of the key.
type names struct {
	digest    string
	operation string
	waiting   string
}

func (s *Store) names(key dedup.Key) names {
	d := digest(key)
	operation := s.prefix + "{" + d + "}"
	return names{digest: d, operation: operation, waiting: operation + ":waiting"}
}

// digest names an operation. Each part has its length before it, so that no
// two keys have the same bytes.
func digest(key dedup.Key) string {
	b := make([]byte, 0, 256)
	for _, part := range [...]string{key.Scope, key.Method, key.ID} {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
