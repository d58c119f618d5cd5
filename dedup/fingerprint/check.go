package fingerprint

import "google.golang.org/protobuf/encoding/protowire"

// isCanonical reports whether the canonical form of b is certainly b itself.
// Most requests are: then they are hashed as they stand. Malformed bytes are
// not.
func isCanonical(b []byte, p *plan) bool {
	var run run
	for len(b) > 0 {
		num, typ, tagLen := protowire.Number(b[0]>>3), protowire.Type(b[0]&7), 1
		if b[0] >= 0x80 || num == 0 {
			num, typ, tagLen = protowire.ConsumeTag(b)
		}
		if tagLen < 0 || num < run.num || num == run.num && typ < run.typ {
			return false
		}
		var f field
		if int(num) < len(p.dense) {
			f = p.dense[num]
		} else if !p.isDense {
			f = p.rare(num)
		}
		if f.ignored || f.group && typ == protowire.StartGroupType {
			return false // groups are rare, and not worth a second path
		}
		b = b[tagLen:]
		if typ != protowire.BytesType {
			n := sizeOfValue(num, typ, b)
			if n < 0 {
				return false
			}
			run, b = runOf(num, typ, nil), b[n:]
			continue
		}
		content, n := consumeBytes(b)
		if n < 0 {
			return false
		}
		b = b[n:]
		if f.message != nil && !f.group {
			shortest := protowire.SizeTag(num) + protowire.SizeBytes(len(content))
			if tagLen+n != shortest || !isCanonical(content, f.message) {
				return false
			}
		}
		if num != run.num || typ != run.typ {
			run = runOf(num, typ, content)
		} else if run.mayBeMap(content) {
			return false
		}
	}
	return true
}

// run is a row of records of one tag.
type run struct {
	num   protowire.Number
	typ   protowire.Type
	first []byte // the content of its first record while that is the only one
}

func runOf(num protowire.Number, typ protowire.Type, first []byte) run { return run{num, typ, first} }

// mayBeMap takes the content of the next record in the run.
func (r *run) mayBeMap(next []byte) bool {
	first := r.first
	r.first = nil
	return len(first) > 0 && isPair(first) && isPair(next)
}

// sizeOfValue is [protowire.ConsumeFieldValue] with a short way for what is
// common.
func sizeOfValue(num protowire.Number, typ protowire.Type, b []byte) int {
	if typ == protowire.VarintType && len(b) > 0 && b[0] < 0x80 {
		return 1
	}
	return protowire.ConsumeFieldValue(num, typ, b)
}

// consumeBytes is [protowire.ConsumeBytes] with a short way for what is common.
func consumeBytes(b []byte) ([]byte, int) {
	if len(b) > 0 && b[0] < 0x80 && int(b[0]) < len(b) {
		end := 1 + int(b[0])
		return b[1:end], end
	}
	return protowire.ConsumeBytes(b)
}

// isPair reports whether a message is exactly a field 1 followed by a field 2.
func isPair(b []byte) bool {
	_, ok := pairKey(b)
	return ok
}

// pairKey returns the length of the field 1 record of a message that is
// exactly a field 1 followed by a field 2.
func pairKey(b []byte) (int, bool) {
	num, _, n := protowire.ConsumeField(b)
	if n < 0 || num != 1 {
		return 0, false
	}
	num, _, m := protowire.ConsumeField(b[n:])
	return n, m >= 0 && num == 2 && n+m == len(b)
}
