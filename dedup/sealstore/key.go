package sealstore

import (
	"errors"
	"fmt"
	"slices"
)

// secretSize is the length of a key's secret in bytes.
const secretSize = 32

// Key is one of the keys that records are sealed with.
type Key struct {
	// ID names the key in the records that it has sealed. It is no secret, and
	// is never given to another key.
	ID uint32
	// Secret is 32 random bytes, such as crypto/rand gives.
	Secret []byte
}

// String returns the key's ID, and nothing of its secret.
func (k Key) String() string { return fmt.Sprintf("key %d", k.ID) }

// GoString is String's twin for %#v.
func (k Key) GoString() string { return fmt.Sprintf("sealstore.Key{ID:%d}", k.ID) }

// Format keeps every verb from showing the secret.
func (k Key) Format(f fmt.State, verb rune) {
	if verb == 'v' && f.Flag('#') {
		fmt.Fprint(f, k.GoString())
		return
	}
	fmt.Fprint(f, k.String())
}

// MarshalText is String's twin for JSON.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// keyring opens with any of its keys and seals with one.
type keyring struct {
	sealing uint32
	secrets map[uint32][]byte
}

// newKeyring copies the keys. The error reports everything that is wrong with
// them.
func newKeyring(keys []Key) (keyring, error) {
	if len(keys) == 0 {
		return keyring{}, errors.New("sealstore: keys: there is none")
	}
	ring := keyring{sealing: keys[0].ID, secrets: make(map[uint32][]byte, len(keys))}
	var errs []error
	for i, k := range keys {
		if len(k.Secret) != secretSize {
			errs = append(errs, fmt.Errorf("sealstore: keys[%d]: Secret has %d bytes, not %d", i, len(k.Secret), secretSize))
		}
		if _, twice := ring.secrets[k.ID]; twice {
			errs = append(errs, fmt.Errorf("sealstore: keys[%d]: ID %d is that of another key too", i, k.ID))
		}
		ring.secrets[k.ID] = slices.Clone(k.Secret)
	}
	return ring, errors.Join(errs...)
}
