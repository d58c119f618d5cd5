package fingerprint

import (
	"bytes"
	"cmp"
	"errors"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// canonizer brings messages into canonical form. It first makes a tree of
// records, sorts it from the leaves up, and then writes it once from the top:
// however deep messages are nested, each byte is moved once.
type canonizer struct {
	src   []byte
	nodes []node
	run   []node // records of one tag while they are being sorted
}

// node is one record. It is a leaf, which stays as it is, or a message that
// the descriptor knows. Offsets fit, since a message has less than 2 GiB.
type node struct {
	num        int32
	typ        protowire.Type
	tree       bool
	start, end int32 // the record in src
	body, stop int32 // its content in src
	// lo and hi are, in a tree, its records in nodes; in a leaf that may be a
	// map's entry, its field 1 record in src.
	lo, hi int32
	size   int32 // of a tree's canonical content
}

var errMalformed = errors.New("malformed wire format")

// appendCanonical appends the canonical form of src, of which p is the plan.
func (c *canonizer) appendCanonical(dst, src []byte, p *plan) ([]byte, error) {
	c.src, c.nodes = src, c.nodes[:0]
	top := node{stop: int32(len(src))}
	err := c.grow(&top, p)
	if err == nil {
		dst = c.write(dst, &top)
	}
	c.src = nil
	return dst, err
}

// grow makes n, whose content is src[body:stop], a tree in canonical order.
func (c *canonizer) grow(n *node, p *plan) error {
	lo := len(c.nodes)
	if err := c.split(int(n.body), int(n.stop), p); err != nil {
		return err
	}
	hi := len(c.nodes)
	for i := lo; i < hi; i++ {
		child := c.nodes[i]
		f := p.field(protowire.Number(child.num))
		if f.message == nil || !child.encodes(f) {
			continue
		}
		if err := c.grow(&child, f.message); err != nil {
			return err
		}
		c.nodes[i] = child
	}
	n.tree, n.lo, n.hi = true, int32(lo), int32(hi)
	c.sort(c.nodes[lo:hi])
	n.size = 0
	for i := lo; i < hi; i++ {
		n.size += c.nodes[i].length()
	}
	return nil
}

// split appends the records of src[from:to] to nodes, without ignored fields.
func (c *canonizer) split(from, to int, p *plan) error {
	for from < to {
		num, typ, tagLen := protowire.ConsumeTag(c.src[from:to])
		if tagLen < 0 {
			return errMalformed
		}
		value := c.src[from+tagLen : to]
		n := protowire.ConsumeFieldValue(num, typ, value)
		if n < 0 {
			return errMalformed
		}
		end := from + tagLen + n
		if !p.field(num).ignored {
			body, stop := contentOf(num, typ, value[:n])
			c.nodes = append(c.nodes, node{
				num: int32(num), typ: typ,
				start: int32(from), body: int32(from + tagLen + body),
				stop: int32(from + tagLen + stop), end: int32(end),
			})
		}
		from = end
	}
	return nil
}

// contentOf returns where the content of a valid value lies within it.
func contentOf(num protowire.Number, typ protowire.Type, value []byte) (from, to int) {
	switch typ {
	case protowire.BytesType:
		content, _ := protowire.ConsumeBytes(value)
		return len(value) - len(content), len(value)
	case protowire.StartGroupType:
		content, _ := protowire.ConsumeGroup(num, value)
		return 0, len(content)
	}
	return 0, len(value)
}

// encodes reports whether the record is encoded as the message that f says.
func (n *node) encodes(f field) bool {
	if f.group {
		return n.typ == protowire.StartGroupType
	}
	return n.typ == protowire.BytesType
}

// sort brings the records of one message into canonical order.
func (c *canonizer) sort(records []node) {
	if !slices.IsSortedFunc(records, compareTags) {
		slices.SortStableFunc(records, compareTags)
	}
	for len(records) > 0 {
		n := 1
		for n < len(records) && compareTags(records[0], records[n]) == 0 {
			n++
		}
		if n > 1 && records[0].typ == protowire.BytesType {
			c.sortMap(records[:n])
		}
		records = records[n:]
	}
}

func compareTags(a, b node) int {
	return cmp.Or(cmp.Compare(a.num, b.num), cmp.Compare(a.typ, b.typ))
}

// sortMap sorts length-delimited records of one number where they count as a
// map.
func (c *canonizer) sortMap(records []node) {
	for i := range records {
		if !c.isEntry(&records[i]) {
			return
		}
	}
	c.run = append(c.run[:0], records...)
	slices.SortFunc(c.run, func(a, b node) int { return c.compareKeys(&a, &b) })
	for i := range c.run[1:] {
		if c.compareKeys(&c.run[i], &c.run[i+1]) == 0 {
			return // a key twice: a list, and its order counts
		}
	}
	copy(records, c.run)
}

// isEntry reports whether the content of n is exactly a field 1 and a field 2.
func (c *canonizer) isEntry(n *node) bool {
	if n.tree {
		return n.hi-n.lo == 2 && c.nodes[n.lo].num == 1 && c.nodes[n.lo+1].num == 2
	}
	keyLen, ok := pairKey(c.src[n.body:n.stop])
	n.lo, n.hi = n.body, n.body+int32(keyLen)
	return ok
}

// compareKeys orders entries by their field 1 records. Records of one number
// are all trees or all leaves, as the descriptor knows the field or does not.
func (c *canonizer) compareKeys(a, b *node) int {
	if a.tree {
		return c.compare(&c.nodes[a.lo], &c.nodes[b.lo])
	}
	return bytes.Compare(c.src[a.lo:a.hi], c.src[b.lo:b.hi])
}

// compare orders records as their canonical bytes would be ordered, without
// writing them. Since a record says where it ends, no record is the beginning
// of another, and the first difference decides. Lengths come before contents,
// so that only contents of one length are ever looked at: that keeps deep
// messages linear.
func (c *canonizer) compare(a, b *node) int {
	var bufA, bufB [20]byte
	if d := bytes.Compare(c.head(bufA[:0], a), c.head(bufB[:0], b)); d != 0 || !a.tree {
		return d
	}
	as, bs := c.nodes[a.lo:a.hi], c.nodes[b.lo:b.hi]
	for i := range min(len(as), len(bs)) {
		if d := c.compare(&as[i], &bs[i]); d != 0 {
			return d
		}
	}
	// Only groups get here with a different number of records.
	end := protowire.AppendTag(bufA[:0], protowire.Number(a.num), protowire.EndGroupType)
	switch {
	case len(as) < len(bs):
		return bytes.Compare(end, c.head(bufB[:0], &bs[len(as)]))
	case len(as) > len(bs):
		return bytes.Compare(c.head(bufB[:0], &as[len(bs)]), end)
	}
	return 0
}

// head returns a whole leaf, or buf with what a tree has before its records.
func (c *canonizer) head(buf []byte, n *node) []byte {
	if !n.tree {
		return c.src[n.start:n.end]
	}
	buf = protowire.AppendTag(buf, protowire.Number(n.num), n.typ)
	if n.typ == protowire.BytesType {
		buf = protowire.AppendVarint(buf, uint64(n.size))
	}
	return buf
}

// length returns the size of the record in canonical form.
func (n *node) length() int32 {
	if !n.tree {
		return n.end - n.start
	}
	tag := int32(protowire.SizeTag(protowire.Number(n.num)))
	if n.typ == protowire.StartGroupType {
		return tag + n.size + tag
	}
	return tag + int32(protowire.SizeVarint(uint64(n.size))) + n.size
}

// write appends the records of a tree.
func (c *canonizer) write(dst []byte, n *node) []byte {
	for i := n.lo; i < n.hi; i++ {
		child := &c.nodes[i]
		if !child.tree {
			dst = append(dst, c.src[child.start:child.end]...)
			continue
		}
		dst = c.write(c.head(dst, child), child)
		if child.typ == protowire.StartGroupType {
			dst = protowire.AppendTag(dst, protowire.Number(child.num), protowire.EndGroupType)
		}
	}
	return dst
}
