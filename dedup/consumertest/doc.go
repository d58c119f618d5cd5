// Package consumertest shows dedup.Do in a consumer of a real broker that
// delivers again: NATS JetStream, with the effects in SQLite. It is an example
// and a test, and has no other code.
//
// A broker that promises "at least once" delivers a message again when it was
// not acknowledged in time: because its consumer crashed, or was slow, or the
// acknowledgement was lost. A producer that is not sure sends it again. The
// consumer takes effect once all the same where it does three things:
//
//   - It names the operation by what the producer has made once for the message,
//     never by what the broker makes for each delivery: here the header
//     Nats-Msg-Id. The message is the fingerprint, so that an ID that comes back
//     with another message is noticed.
//   - It acknowledges after Do has returned, and not before.
//   - It has no retry loop. Whatever Do cannot answer goes back to the broker,
//     which owns the retries.
//
// What Do returns says what the broker is told:
//
//	nil                          acknowledge: executed now or before, and a
//	                             business error is an outcome too
//	*dedup.InProgressError       give back, for RetryAfter
//	dedup.ErrKeyReused, ErrNoKey refuse for good: the producer is wrong
//	dedup.ErrOutcomeUnknown      refuse for good, and tell somebody
//	any other                    give back, for a while
//
// In a transactional store the effect and the outcome commit together, so that a
// crash at any point leaves one effect once the message has been delivered
// again. The tests kill the process at each of them.
package consumertest
