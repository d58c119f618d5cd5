package dedup

import "time"

// slot numbers an entry of a shard. It stays the entry's own until it is
// removed.
type slot uint32

const noSlot slot = 0

type memoryState uint8

const (
	memoryClaimed memoryState = iota
	memoryCompleted
	memoryReleased
)

// memoryEntry is what is remembered of one operation. It is packed into 128
// bytes, what is read most in front.
type memoryEntry struct {
	expires int64 // when it is forgotten

	// block is scope, method and ID, and then the record. It is replaced, never
	// changed, so that a record can be read without the lock.
	block     []byte
	scopeEnd  uint32
	methodEnd uint32
	keyEnd    uint32

	next        slot // of the same hash
	attempt     uint16
	state       memoryState
	fingerprint Fingerprint
	owner       Owner
	place       uint32 // in the order of expiry
	leaseEnd    int64  // of a claim
	fence       uint64
	hash        uint64
}

// retention returns how long a claim is remembered after its lease.
func (e *memoryEntry) retention() time.Duration { return time.Duration(e.expires - e.leaseEnd) }

func keySize(key Key) int { return len(key.Scope) + len(key.Method) + len(key.ID) }

func (e *memoryEntry) setKey(key Key) {
	b := make([]byte, 0, keySize(key))
	b = append(b, key.Scope...)
	e.scopeEnd = uint32(len(b))
	b = append(b, key.Method...)
	e.methodEnd = uint32(len(b))
	b = append(b, key.ID...)
	e.keyEnd = uint32(len(b))
	e.block = b
}

func (e *memoryEntry) is(key Key) bool {
	return string(e.block[e.methodEnd:e.keyEnd]) == key.ID &&
		string(e.block[e.scopeEnd:e.methodEnd]) == key.Method &&
		string(e.block[:e.scopeEnd]) == key.Scope
}

func (e *memoryEntry) setRecord(record []byte) {
	b := make([]byte, 0, int(e.keyEnd)+len(record))
	b = append(b, e.block[:e.keyEnd]...)
	e.block = append(b, record...)
}

// record returns the record, which nobody may change or append to.
func (e *memoryEntry) record() []byte {
	return e.block[e.keyEnd:len(e.block):len(e.block)]
}

// memoryEntries gives slots to entries. They stand in chunks, so that none
// moves when there are more.
type memoryEntries struct {
	chunks []*[entryChunk]memoryEntry
	used   slot // slots 1 to used have been given
	unused slot // the first of those that were given back
}

// entryChunk entries and the runtime's own 8 bytes just fit into the allocator's
// class of 8 KiB.
const entryChunk = 63

func (es *memoryEntries) at(n slot) *memoryEntry {
	return &es.chunks[(n-1)/entryChunk][(n-1)%entryChunk]
}

// add returns the slot of a zero entry.
func (es *memoryEntries) add() slot {
	if n := es.unused; n != noSlot {
		e := es.at(n)
		es.unused, e.next = e.next, noSlot
		return n
	}
	if es.used%entryChunk == 0 {
		es.chunks = append(es.chunks, new([entryChunk]memoryEntry))
	}
	es.used++
	return es.used
}

func (es *memoryEntries) free(n slot) {
	*es.at(n) = memoryEntry{next: es.unused}
	es.unused = n
}

// expiryOrder is a binary heap of entries, the first to expire at its top.
type expiryOrder []slot

func (o expiryOrder) first() slot {
	if len(o) == 0 {
		return noSlot
	}
	return o[0]
}

func (o *expiryOrder) push(es *memoryEntries, n slot) {
	*o = append(*o, n)
	es.at(n).place = uint32(len(*o) - 1)
	o.up(es, len(*o)-1)
}

func (o *expiryOrder) remove(es *memoryEntries, n slot) {
	i, last := int(es.at(n).place), len(*o)-1
	moved := (*o)[last]
	*o = (*o)[:last]
	if i == last {
		return
	}
	(*o)[i] = moved
	es.at(moved).place = uint32(i)
	o.fix(es, moved)
}

// fix moves n to where its expiry belongs.
func (o expiryOrder) fix(es *memoryEntries, n slot) {
	if i := int(es.at(n).place); !o.down(es, i) {
		o.up(es, i)
	}
}

func (o expiryOrder) up(es *memoryEntries, i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !o.before(es, i, parent) {
			return
		}
		o.swap(es, i, parent)
		i = parent
	}
}

// down returns whether anything has moved.
func (o expiryOrder) down(es *memoryEntries, i int) bool {
	start := i
	for {
		child := 2*i + 1
		if child >= len(o) {
			break
		}
		if child+1 < len(o) && o.before(es, child+1, child) {
			child++
		}
		if !o.before(es, child, i) {
			break
		}
		o.swap(es, i, child)
		i = child
	}
	return i > start
}

func (o expiryOrder) before(es *memoryEntries, i, j int) bool {
	return es.at(o[i]).expires < es.at(o[j]).expires
}

func (o expiryOrder) swap(es *memoryEntries, i, j int) {
	o[i], o[j] = o[j], o[i]
	es.at(o[i]).place = uint32(i)
	es.at(o[j]).place = uint32(j)
}
