package key

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
)

// MaxLen is the length of the longest key, in bytes.
const MaxLen = 255

// ErrInvalid says that a key is empty, too long or not visible ASCII, or that
// a call carries more than one. Its message never shows the key.
var ErrInvalid = errors.New("invalid idempotency key")

// Validate returns nil where key is 1 to [MaxLen] visible ASCII bytes (0x21 to
// 0x7e), otherwise an error that wraps [ErrInvalid].
func Validate(key string) error {
	if key == "" {
		return fmt.Errorf("%w: empty", ErrInvalid)
	}
	if len(key) > MaxLen {
		return fmt.Errorf("%w: %d bytes, more than %d", ErrInvalid, len(key), MaxLen)
	}
	for i := range len(key) {
		if c := key[i]; c < 0x21 || c > 0x7e {
			return fmt.Errorf("%w: byte %d is not visible ASCII", ErrInvalid, i)
		}
	}
	return nil
}

// textLen is the length of a UUID as text.
const textLen = 36

// New returns a new key: a UUIDv7 as text (RFC 9562, section 5.7). It starts
// with the time in milliseconds, so that a store appends new keys rather than
// scatters them; the other 74 bits come from crypto/rand. Calls share no lock.
func New() string {
	text := newText()
	return string(text[:])
}

func newText() (text [textLen]byte) {
	var u [16]byte
	_, _ = rand.Read(u[6:]) // never fails: crypto/rand ends the program instead
	ms := uint64(time.Now().UnixMilli())
	binary.BigEndian.PutUint16(u[0:], uint16(ms>>32))
	binary.BigEndian.PutUint32(u[2:], uint32(ms))
	u[6] = u[6]&0x0f | 0x70 // version 7
	u[8] = u[8]&0x3f | 0x80 // variant of RFC 9562

	hex.Encode(text[0:8], u[0:4])
	text[8] = '-'
	hex.Encode(text[9:13], u[4:6])
	text[13] = '-'
	hex.Encode(text[14:18], u[6:8])
	text[18] = '-'
	hex.Encode(text[19:23], u[8:10])
	text[23] = '-'
	hex.Encode(text[24:36], u[10:16])
	return text
}

// Maker makes keys as [New] does, with one allocation for eight of them: a text
// alone would take 48 bytes. A key that is kept keeps its seven neighbours. The
// zero Maker is ready. It is not for concurrent use, and must not be copied once
// it was used.
type Maker struct {
	texts strings.Builder
}

// eight fills one of the runtime's size classes.
const eight = 8 * textLen

// New returns a new key.
func (m *Maker) New() string {
	if m.texts.Cap()-m.texts.Len() < textLen {
		m.texts.Reset() // keys made before keep their bytes
		m.texts.Grow(eight)
	}
	text, n := newText(), m.texts.Len()
	m.texts.Write(text[:])
	return m.texts.String()[n:]
}
