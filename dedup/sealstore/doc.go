// Package sealstore keeps what operations answered encrypted, in any
// [dedup.Store].
//
//	store, err := sqlitestore.Open(ctx, "ledger.db")
//	sealed, err := sealstore.New(store, []sealstore.Key{{ID: 2, Secret: now}, {ID: 1, Secret: before}})
//	once, err := idempotency.UnaryServerInterceptor(sealed)
//
// A record holds a response, or a status with its details, and is kept for as
// long as clients may repeat the call. Sealed, it can be read by nobody who has
// the storage, a backup or a replica of it, and not the key; and nobody without
// the key can change it, or pass the outcome of one operation off as that of
// another.
//
// What the store promises, and whether it wakes those who wait, is as before,
// and so is the handler's context: sqlitestore.Tx and pgstore.Tx work.
//
// # What is not hidden
//
// Everything but the record: that there is an operation, when it was executed,
// how long its record is, its scope, method and idempotency key as far as the
// store shows them, and the fingerprint of its request. That is a SHA-256
// digest, which somebody who can guess the whole request can check.
//
// # Keys
//
// The first key seals, and all of them open. To change the key without an
// interruption, with several servers on one storage:
//
//  1. Give every server the new key, after the old one.
//  2. When all have it, put it first.
//  3. When the longest retention has passed since, leave the old one out.
//
// A record whose key is missing, or that was damaged or moved, is not executed
// again: its operation answers [dedup.ErrRecordUnreadable]. The same holds for
// records from before the store was sealed, unless [WithPlain] lets them be
// read.
//
// # What is stored
//
//	version  1 byte, 225, which no unsealed record begins with
//	key      4 bytes, big endian: the key's ID
//	salt     32 bytes, random
//	text     the record, by AES-256-GCM, and its tag of 16 bytes
//
// Each record has a key of its own, HKDF-SHA-256 (RFC 5869) of the secret and
// the salt, so that one secret may seal any number of records. The tag is also
// over all that stands before the text, and over the operation's scope, method
// and ID.
package sealstore
