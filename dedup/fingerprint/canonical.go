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
// however deep messages are nested, each byte is looked at once and moved once.
type canonizer struct {
	src   []byte
	nodes []node // the records of messages that are sorted
	open  []node // those of the messages being read, the outermost first
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
	c.src, c.nodes, c.open = src, c.nodes[:0], c.open[:0]
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
	base := len(c.open)
	for at := n.body; at < n.stop; {
		r, err := c.next(at, n.stop, p)
		if err != nil {
			return err
		}
		at = r.end
	}
	c.close(n, base)
	return nil
}

// growGroup is grow for a group, whose content ends, within src[:limit], where
// its end tag is found.
func (c *canonizer) growGroup(n *node, limit int32, p *plan) error {
	base := len(c.open)
	for at := n.body; ; {
		num, typ, tagLen := protowire.ConsumeTag(c.src[at:limit])
		if typ == protowire.EndGroupType && tagLen > 0 {
			if int32(num) != n.num {
				return errMalformed
			}
			n.stop, n.end = at, at+int32(tagLen)
			c.close(n, base)
			return nil
		}
		r, err := c.next(at, limit, p)
		if err != nil {
			return err
		}
		at = r.end
	}
}

// next reads the record at src[at:limit], with all within it, and keeps it in
// open unless it is ignored.
func (c *canonizer) next(at, limit int32, p *plan) (node, error) {
	num, typ, tagLen := protowire.ConsumeTag(c.src[at:limit])
	if tagLen < 0 {
		return node{}, errMalformed
	}
	f := p.field(num)
	n := node{num: int32(num), typ: typ, start: at, body: at + int32(tagLen)}
	known := f.message != nil && !f.ignored && n.encodes(f)
	if known && f.group {
		// Were it measured first, each byte would be read at every level.
		err := c.growGroup(&n, limit, f.message)
		return c.keep(n), err
	}
	size := protowire.ConsumeFieldValue(num, typ, c.src[n.body:limit])
	if size < 0 {
		return node{}, errMalformed
	}
	n.end = n.body + int32(size)
	n.stop = n.end
	if f.ignored {
		return n, nil
	}
	if typ == protowire.BytesType {
		content, _ := protowire.ConsumeBytes(c.src[n.body:n.end])
		n.body = n.end - int32(len(content))
	}
	if known {
		if err := c.grow(&n, f.message); err != nil {
			return node{}, err
		}
	}
	return c.keep(n), nil
}

func (c *canonizer) keep(n node) node {
	c.open = append(c.open, n)
	return n
}

// close makes a tree of n and of the records that are open from base on.
func (c *canonizer) close(n *node, base int) {
	records := c.open[base:]
	c.sort(records)
	n.tree, n.lo, n.hi, n.size = true, int32(len(c.nodes)), int32(len(c.nodes)+len(records)), 0
	for i := range records {
		n.size += records[i].length()
	}
	c.nodes = append(c.nodes, records...)
	c.open = c.open[:base]
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
