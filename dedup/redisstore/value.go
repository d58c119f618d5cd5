package redisstore

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
)

// What the key of an operation holds, all numbers big-endian:
//
//	 0  version, 1
//	 1  state: C claimed, D completed, R released
//	 2  owner
//	18  fence, 8 bytes
//	26  attempt, 4 bytes
//	30  fingerprint: version, then sum
//	63  retention of the claim in milliseconds, 8 bytes
//	71  the record, where the state is D
//
// The scripts know the version's length, the state and the retention.
const (
	valueVersion = 1

	stateAt       = 1
	ownerAt       = 2
	fenceAt       = 18
	attemptAt     = 26
	fingerprintAt = 30
	retentionAt   = 63
	headerSize    = 71
)

type state byte

const (
	claimed   state = 'C'
	completed state = 'D'
	released  state = 'R'
)

// header is what is known of an operation beside its record.
type header struct {
	state       state
	owner       dedup.Owner
	fence       uint64
	attempt     uint32
	fingerprint dedup.Fingerprint
	retention   int64 // milliseconds
}

// newHeader is the header of an operation's first claim.
func newHeader(req dedup.ClaimRequest) header {
	return header{
		state:       claimed,
		owner:       req.Owner,
		fence:       uint64(time.Now().UnixMicro()),
		attempt:     1,
		fingerprint: req.Fingerprint,
		retention:   millis(req.Retention),
	}
}

// successor is the header of the claim that req makes after h.
func (h header) successor(req dedup.ClaimRequest) header {
	next := newHeader(req)
	next.fence = max(next.fence, h.fence+1)
	next.attempt = h.attempt + 1
	return next
}

// text returns the header in a state.
func (h header) text(s state) string {
	b := h.bytes(s)
	return string(b[:])
}

// withRecord returns what a completed operation's key holds.
func (h header) withRecord(record []byte) string {
	var b strings.Builder
	b.Grow(headerSize + len(record))
	head := h.bytes(completed)
	b.Write(head[:])
	b.Write(record)
	return b.String()
}

func (h header) bytes(s state) (b [headerSize]byte) {
	b[0] = valueVersion
	b[stateAt] = byte(s)
	copy(b[ownerAt:], h.owner[:])
	binary.BigEndian.PutUint64(b[fenceAt:], h.fence)
	binary.BigEndian.PutUint32(b[attemptAt:], h.attempt)
	b[fingerprintAt] = byte(h.fingerprint.Version)
	copy(b[fingerprintAt+1:], h.fingerprint.Sum[:])
	binary.BigEndian.PutUint64(b[retentionAt:], uint64(h.retention))
	return b
}

// parse returns the header of a value. Its error wraps
// [dedup.ErrRecordUnreadable].
func parse(value string) (header, error) {
	if len(value) == 0 || value[0] != valueVersion {
		return header{}, unreadable("it is not of version 1")
	}
	if len(value) < headerSize {
		return header{}, unreadable("it is cut short")
	}
	b := []byte(value[:headerSize])
	h := header{
		state:     state(b[stateAt]),
		fence:     binary.BigEndian.Uint64(b[fenceAt:]),
		attempt:   binary.BigEndian.Uint32(b[attemptAt:]),
		retention: int64(binary.BigEndian.Uint64(b[retentionAt:])),
	}
	copy(h.owner[:], b[ownerAt:])
	h.fingerprint.Version = dedup.FingerprintVersion(b[fingerprintAt])
	copy(h.fingerprint.Sum[:], b[fingerprintAt+1:])
	switch {
	case h.state == completed:
	case h.state != claimed && h.state != released:
		return header{}, unreadable("its state is not known")
	case len(value) > headerSize:
		return header{}, unreadable("it is longer than a claim")
	}
	return h, nil
}

func unreadable(why string) error {
	return fmt.Errorf("redisstore: claim: what the key holds is not this store's: %s: %w", why, dedup.ErrRecordUnreadable)
}
