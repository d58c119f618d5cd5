package pgstore

import (
	"crypto/sha256"
	"database/sql/driver"
	"encoding/binary"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/retrysafe/retrysafe/dedup"
)

// Names of tables, as the server gives them in errors too.
const (
	outcomesTable = "retrysafe_outcomes"
	leasesTable   = "retrysafe_leases"
	// partitionedTable is the table of outcomes of stores with partitions.
	partitionedTable = "retrysafe_outcomes_by_time"
)

const (
	// maxKey keeps an operation's identity within what a B-tree of PostgreSQL
	// can index, which is 2,704 bytes.
	maxKey = 2000
	// maxRecord keeps a record, and the message that carries it, well within
	// PostgreSQL's limit of 1 GB.
	maxRecord = 256 << 20
	// minDuration is the shortest lease and retention. PostgreSQL counts
	// microseconds, but no network does.
	minDuration = time.Millisecond
)

// name returns an object's name as it stands in a statement.
func (c *config) name(object string) string {
	if c.schema == nil {
		return pgx.Identifier{object}.Sanitize()
	}
	return pgx.Identifier{*c.schema, object}.Sanitize()
}

// literal quotes a string constant.
func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// hidden is a statement's parameter that tracers and loggers do not show.
type hidden []byte

// Value implements [driver.Valuer].
func (h hidden) Value() (driver.Value, error) { return []byte(h), nil }

// String says that there is something, not what.
func (h hidden) String() string { return "(hidden)" }

// GoString is String's twin for %#v.
func (h hidden) GoString() string { return "(hidden)" }

// Format keeps every verb from showing the bytes.
func (h hidden) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("(hidden)")) }

// MarshalText is String's twin for JSON.
func (h hidden) MarshalText() ([]byte, error) { return []byte("(hidden)"), nil }

// LogValue implements [slog.LogValuer] as String does.
func (h hidden) LogValue() slog.Value { return slog.StringValue("(hidden)") }

// notNull is a record as a parameter: an empty one is not NULL.
func notNull(record []byte) hidden {
	if record == nil {
		return hidden{}
	}
	return record
}

// identity is a key as statements take it.
type identity struct{ scope, method, id hidden }

func newIdentity(k dedup.Key) identity {
	return identity{hidden(k.Scope), hidden(k.Method), hidden(k.ID)}
}

// digest is the same for the same operation in every process.
func (i identity) digest() [sha256.Size]byte {
	h := sha256.New()
	var length [8]byte
	for _, part := range []hidden{i.scope, i.method, i.id} {
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		h.Write(length[:])
		h.Write(part)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// lock is the number of the operation's advisory lock.
func (i identity) lock() int64 {
	sum := i.digest()
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

// validate reports what of a request cannot be honoured.
func validate(req dedup.ClaimRequest) error {
	if n := len(req.Key.Scope) + len(req.Key.Method) + len(req.Key.ID); n > maxKey {
		return fmt.Errorf("pgstore: claim: scope, method and ID have %d bytes together, more than %d", n, maxKey)
	}
	if err := checkDuration("lease", req.Lease); err != nil {
		return err
	}
	return checkDuration("retention", req.Retention)
}

func checkDuration(name string, d time.Duration) error {
	if d < minDuration {
		return fmt.Errorf("pgstore: %s: %v is less than %v", name, d, minDuration)
	}
	return nil
}

func checkCompletion(c dedup.Completion) error {
	if len(c.Record) > maxRecord {
		return fmt.Errorf("pgstore: complete: %d bytes are more than %d: %w", len(c.Record), maxRecord, dedup.ErrTooLarge)
	}
	return checkDuration("retention", c.Retention)
}

// fingerprintOf makes a fingerprint of the two columns that hold it.
func fingerprintOf(version, sum []byte) dedup.Fingerprint {
	f := dedup.Fingerprint{Version: dedup.FingerprintVersion(binary.BigEndian.Uint16(version))}
	copy(f.Sum[:], sum)
	return f
}
