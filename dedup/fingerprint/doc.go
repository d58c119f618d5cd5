// Package fingerprint computes the fingerprint of a protobuf request: what
// tells that an idempotency key came back with another request.
//
// Two attempts of one operation are often not the same bytes. Clients write
// maps in random order at every attempt, implementations order fields in their
// own ways, a proxy may have sent the message on, and during a rollout one
// replica of the server knows a new field and the other does not yet. The
// fingerprint is the same in all these cases, and another one for any change
// of what was asked for.
//
// # The canonical form
//
// It is defined on the wire format, so that a program in any language can
// compute it. The fingerprint of version 2 ([dedup.FingerprintProto]) is
//
//	SHA-256("retrysafe-fingerprint-v1" 0x00 canonical(message))
//
// where message is as the protobuf implementation serializes it after parsing,
// and canonical does this with the bytes of one message:
//
//  1. Take them apart into records: a tag and its value. A group is one
//     record, up to its end tag.
//  2. Leave out the records of fields that the descriptor marks with the
//     option (retrysafe.v1.fingerprint_ignore).
//  3. Where the descriptor knows a field to be a message (a map's entry is
//     one) and the record is encoded as such, replace its content by
//     canonical(content), and write tag and length as the shortest varints.
//     Keep every other record as it is, byte for byte: those of unknown
//     fields, and bytes fields that hold messages, as the value of
//     google.protobuf.Any.
//  4. Sort the records by field number and, within a number, by wire type.
//     Those of one tag keep their order.
//  5. Sort what counts as a map. The length-delimited records of one number
//     count as a map where there are two or more, the content of every one is
//     exactly a record of field 1 followed by a record of field 2, and their
//     field 1 records differ from each other. They are sorted by the bytes of
//     their field 1 records (tag, length if any, content), compared as unsigned
//     bytes.
//
// An extension is known where it is linked into the program.
//
// # What counts as a map
//
// Rule 5 looks at the bytes and not at the descriptor, because a server that
// does not know a new map field yet has only the bytes. Did it not sort them, it
// would refuse the retries of a client newer than itself: the client writes
// the map in another order each time.
//
// The consequence: a list of pairs with distinct first members (a repeated
// message with just fields 1 and 2 set, or strings that happen to look like
// it) has the same fingerprint in any order. A request that repeats a key and
// differs from the first in nothing but that order is answered with the first
// one's outcome.
//
// # Limits
//
// An unknown field that is a message is kept as it came, since its bytes do
// not say that they are one. A binary that knows the field agrees with one that
// does not where the sender writes fields in ascending order, as the
// implementations do (Go writes the members of a oneof last, and so out of
// order where other fields have higher numbers), and where no map lies within
// the unknown message.
//
// Default values that the sender left out and ones it wrote are the same where
// the field is known and has no presence, and differ where it is unknown.
//
// Time and memory are linear in the size of the message, but for sorting; the
// sort needs 72 bytes for each field of a message that is not in canonical
// form already.
package fingerprint
