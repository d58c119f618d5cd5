package fingerprint

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/retrysafe/retrysafe/dedup"
)

// domain keeps these hashes apart from any other use of SHA-256.
const domain = "retrysafe-fingerprint-v1\x00"

// Buffers above these sizes are left to the garbage collector, so that one
// large request does not stay for ever.
const (
	maxPooled = 64 << 10 // bytes
	maxNodes  = 2 << 10
)

// scratch is what one fingerprint needs and the next can use again.
type scratch struct {
	wire []byte // domain, then the message as serialized
	canonizer
	form []byte // domain, then the canonical form
}

var pool = sync.Pool{New: func() any { return new(scratch) }}

// Message returns the fingerprint of m, by the rules of the package. It is
// safe for concurrent use while nobody changes m. It fails where m cannot be
// serialized: a nil interface, a string that is not UTF-8, 2 GiB or more.
//
// A nil pointer to a message has the fingerprint of the empty message, and so
// have a message without its required fields and a complete one that differ in
// nothing else: only what is set counts, not whether it is all there.
func Message(m proto.Message) (dedup.Fingerprint, error) {
	if m == nil {
		return dedup.Fingerprint{}, errors.New("fingerprint: message is nil")
	}
	s := pool.Get().(*scratch)
	defer s.put()
	sum, err := s.sum(m)
	if err != nil {
		return dedup.Fingerprint{}, fmt.Errorf("fingerprint: %s: %w", m.ProtoReflect().Descriptor().FullName(), err)
	}
	return dedup.Fingerprint{Version: dedup.FingerprintProto, Sum: sum}, nil
}

var errTooLarge = errors.New("message is 2 GiB or more")

func (s *scratch) sum(m proto.Message) ([sha256.Size]byte, error) {
	p := planOf(m.ProtoReflect().Descriptor())
	// An extension that is not linked in stays raw though it may hold a map, as
	// only a message with a resolver of its own can have it.
	marshal := proto.MarshalOptions{AllowPartial: true, Deterministic: !p.closed}
	var err error
	s.wire, err = marshal.MarshalAppend(append(s.wire[:0], domain...), m)
	if err != nil {
		return [sha256.Size]byte{}, err
	}
	message := s.wire[len(domain):]
	if len(message) > math.MaxInt32 {
		return [sha256.Size]byte{}, errTooLarge
	}
	if isCanonical(message, p) {
		return sha256.Sum256(s.wire), nil
	}
	s.form, err = s.appendCanonical(append(s.form[:0], domain...), message, p)
	return sha256.Sum256(s.form), err
}

func (s *scratch) put() {
	if cap(s.wire) > maxPooled {
		s.wire = nil
	}
	if cap(s.form) > maxPooled {
		s.form = nil
	}
	if cap(s.nodes) > maxNodes {
		s.nodes = nil
	}
	if cap(s.open) > maxNodes {
		s.open = nil
	}
	if cap(s.run) > maxNodes {
		s.run = nil
	}
	pool.Put(s)
}
