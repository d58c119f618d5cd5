package dedup

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"slices"

	"google.golang.org/grpc/codes"
)

// A record is the binary form of an outcome, as stores keep it:
//
//	version  1 byte, 1
//	kind     1 byte, 1: an outcome, 2: the outcome was too large to keep
//	code     uvarint                       ┐
//	message  string                        │
//	details  uvarint count, payloads       │ kind 1 only
//	response payload                       │
//	header   uvarint count, metadata       │
//	trailer  uvarint count, metadata       ┘
//	sum      4 bytes, big endian: CRC-32C of all before it
//
//	string   uvarint length, bytes
//	payload  string type, string value
//	metadata string key, uvarint count, strings; ordered by key
//
// Every outcome has one record: a decoder takes no other form of it, such as
// an integer that is longer than it must be. A new version is a new version
// byte; a decoder that does not know it must not guess.
const (
	recordVersion = 1

	recordOutcome  = 1
	recordTooLarge = 2

	recordSumSize = 4
	recordMinSize = 2 + recordSumSize
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendSum ends a record.
func appendSum(b []byte) []byte {
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// tooLargeRecord stands for an outcome that was too large to keep.
func tooLargeRecord() []byte {
	return appendSum([]byte{recordVersion, recordTooLarge})
}

// recordSize is the length of encodeRecord's result.
func recordSize(o *Outcome) int {
	n := recordMinSize + uvarintSize(uint64(o.Code)) + stringSize(o.Message) +
		uvarintSize(uint64(len(o.Details))) + payloadSize(o.Response) +
		metadataSize(o.Header) + metadataSize(o.Trailer)
	for _, d := range o.Details {
		n += payloadSize(d)
	}
	return n
}

// encodeRecord returns the record of an outcome.
func encodeRecord(o *Outcome) []byte {
	b := make([]byte, 0, recordSize(o))
	b = append(b, recordVersion, recordOutcome)
	b = binary.AppendUvarint(b, uint64(o.Code))
	b = appendString(b, o.Message)
	b = binary.AppendUvarint(b, uint64(len(o.Details)))
	for _, d := range o.Details {
		b = appendPayload(b, d)
	}
	b = appendPayload(b, o.Response)
	b = appendMetadata(b, o.Header)
	b = appendMetadata(b, o.Trailer)
	return appendSum(b)
}

func appendString[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendPayload(b []byte, p Payload) []byte {
	return appendString(appendString(b, p.Type), p.Value)
}

func appendMetadata(b []byte, md map[string][]string) []byte {
	b = binary.AppendUvarint(b, uint64(len(md)))
	if len(md) == 0 {
		return b
	}
	for _, key := range slices.Sorted(maps.Keys(md)) {
		b = appendString(b, key)
		b = binary.AppendUvarint(b, uint64(len(md[key])))
		for _, value := range md[key] {
			b = appendString(b, value)
		}
	}
	return b
}

func uvarintSize(n uint64) int {
	size := 1
	for ; n >= 0x80; n >>= 7 {
		size++
	}
	return size
}

func stringSize[T string | []byte](s T) int { return uvarintSize(uint64(len(s))) + len(s) }

func payloadSize(p Payload) int { return stringSize(p.Type) + stringSize(p.Value) }

func metadataSize(md map[string][]string) int {
	n := uvarintSize(uint64(len(md)))
	for key, values := range md {
		n += stringSize(key) + uvarintSize(uint64(len(values)))
		for _, value := range values {
			n += stringSize(value)
		}
	}
	return n
}

// decodeRecord returns the outcome of a record, which shares no memory with
// it. The error wraps [ErrRecordUnreadable], or is [ErrTooLarge] where the
// record says so. What was empty is nil.
func decodeRecord(record []byte) (Outcome, error) {
	if len(record) < recordMinSize {
		return Outcome{}, unreadable("it is cut short")
	}
	if v := record[0]; v != recordVersion {
		return Outcome{}, fmt.Errorf("%w: its version is %d, known is %d", ErrRecordUnreadable, v, recordVersion)
	}
	body, sum := record[:len(record)-recordSumSize], record[len(record)-recordSumSize:]
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(sum) {
		return Outcome{}, unreadable("its checksum is wrong")
	}
	r := reader{rest: body[2:]}
	switch body[1] {
	case recordTooLarge:
		if len(r.rest) > 0 {
			return Outcome{}, unreadable("it has more than it should")
		}
		return Outcome{}, ErrTooLarge
	case recordOutcome:
		return r.outcome()
	}
	return Outcome{}, fmt.Errorf("%w: its kind is %d", ErrRecordUnreadable, body[1])
}

func unreadable(why string) error { return fmt.Errorf("%w: %s", ErrRecordUnreadable, why) }

// reader takes a record apart from its front. After a mistake it is bad, and
// returns zeros.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) outcome() (Outcome, error) {
	var o Outcome
	code := r.uvarint()
	if code > math.MaxUint32 {
		r.bad = true
	}
	o.Code = codes.Code(code)
	o.Message = r.string()
	o.Details = r.payloads()
	o.Response = r.payload()
	o.Header = r.metadata()
	o.Trailer = r.metadata()
	if r.bad || len(r.rest) > 0 {
		return Outcome{}, unreadable("its fields do not fit together")
	}
	return o, nil
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || n != uvarintSize(v) {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// count reads how many items follow, of which each takes at least size bytes.
// What it returns can therefore be trusted for an allocation.
func (r *reader) count(size int) int {
	n := r.uvarint()
	if n > uint64(len(r.rest)/size) {
		r.bad, r.rest = true, nil
		return 0
	}
	return int(n)
}

// bytes returns a part of the record itself.
func (r *reader) bytes() []byte {
	n := r.count(1)
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) string() string { return string(r.bytes()) }

func (r *reader) payload() Payload {
	p := Payload{Type: r.string()}
	if value := r.bytes(); len(value) > 0 {
		p.Value = slices.Clone(value)
	}
	return p
}

func (r *reader) payloads() []Payload {
	n := r.count(2)
	if n == 0 {
		return nil
	}
	list := make([]Payload, n)
	for i := range list {
		list[i] = r.payload()
	}
	return list
}

func (r *reader) metadata() map[string][]string {
	n := r.count(2)
	if n == 0 {
		return nil
	}
	md := make(map[string][]string, min(n, 16))
	last := ""
	for i := range n {
		key := r.string()
		if i > 0 && key <= last {
			r.bad = true
		}
		if r.bad {
			return nil
		}
		md[key], last = r.strings(), key
	}
	return md
}

func (r *reader) strings() []string {
	n := r.count(1)
	if n == 0 {
		return nil
	}
	list := make([]string, n)
	for i := range list {
		list[i] = r.string()
	}
	return list
}
