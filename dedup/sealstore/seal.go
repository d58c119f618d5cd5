package sealstore

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe/dedup"
)

const (
	sealVersion = 225
	saltSize    = 32
	headerSize  = 1 + 4 + saltSize
	tagSize     = 16
)

// derivation names what keys are derived for.
const derivation = "retrysafe/sealstore/v1"

// errPlain: the record is not sealed.
var errPlain = errors.New("it is not sealed")

// seal encrypts an operation's record.
func (r keyring) seal(op dedup.Key, record []byte) ([]byte, error) {
	sealed := make([]byte, headerSize, headerSize+len(record)+tagSize)
	sealed[0] = sealVersion
	binary.BigEndian.PutUint32(sealed[1:], r.sealing)
	rand.Read(sealed[5:headerSize]) // never fails, by its documentation
	aead, err := r.aead(sealed)
	if err != nil {
		return nil, err
	}
	return aead.Seal(sealed, nonce(aead), record, bound(sealed[:headerSize], op)), nil
}

// open decrypts an operation's record. The error is errPlain where it was never
// sealed.
func (r keyring) open(op dedup.Key, sealed []byte) ([]byte, error) {
	if len(sealed) == 0 || sealed[0] != sealVersion {
		return nil, errPlain
	}
	if len(sealed) < headerSize+tagSize {
		return nil, errors.New("it is cut short")
	}
	aead, err := r.aead(sealed)
	if err != nil {
		return nil, err
	}
	record, err := aead.Open([]byte{}, nonce(aead), sealed[headerSize:], bound(sealed[:headerSize], op))
	if err != nil {
		return nil, errors.New("it was changed, or is another operation's")
	}
	return record, nil
}

// aead returns the cipher of the one record with that header.
func (r keyring) aead(header []byte) (cipher.AEAD, error) {
	id := binary.BigEndian.Uint32(header[1:])
	secret, ok := r.secrets[id]
	if !ok {
		return nil, fmt.Errorf("it was sealed with the key %d, which is not there", id)
	}
	key, err := hkdf.Key(sha256.New, secret, header[5:headerSize], derivation, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// nonce is zero: no two records share a key.
func nonce(aead cipher.AEAD) []byte { return make([]byte, aead.NonceSize()) }

// bound is what the tag is over, beside the text: the header and the operation,
// each part of it with its length before it.
func bound(header []byte, op dedup.Key) []byte {
	b := make([]byte, 0, len(header)+24+len(op.Scope)+len(op.Method)+len(op.ID))
	b = append(b, header...)
	for _, part := range []string{op.Scope, op.Method, op.ID} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(part)))
		b = append(b, part...)
	}
	return b
}
