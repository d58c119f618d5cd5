// Package redisstore is a [dedup.Store] in Redis, 7.0 or newer: one server,
// Sentinel or Cluster. It promises at most one executor at a time.
//
//	store, err := redisstore.Open(ctx, "redis://localhost:6379")
//	defer store.Close()
//
// [New] borrows a client of go-redis, of any kind. [NewWithDriver] takes any
// other through an adapter; package rueidisadapter has the one for rueidis.
//
// # What Redis can lose
//
// Redis acknowledges a write before it is on a replica, and, unless the server
// runs with appendfsync always, before it is on the disk. So claims and
// outcomes that were acknowledged can be gone:
//
//   - after a failover: what the new master had not yet received, usually the
//     last milliseconds, and with a partition as long as it lasts;
//   - after a crash: the last second with appendfsync everysec, all since the
//     last snapshot without the append-only file, everything with neither.
//
// An operation that was lost so is new to the store. A repeat of it executes
// again, even while the first execution still runs. Renewals and completions
// of a claim that was lost answer [dedup.ErrLeaseLost], so that the first
// executor learns of it, but its effect stands. WAIT does not change that, and
// nothing does: Redis has no consensus. Where a second execution costs money,
// use a transactional store, or let the handler pass its fence on to what it
// writes to and have a lower one refused there.
//
// Redis must not evict. Every policy but noeviction removes keys that are
// still needed, so that their operations execute again. The store looks at
// each master when it is made, refuses any other policy, and refuses a server
// older than 7.0. It does not notice a policy that is changed later. When the
// memory is full, new operations are refused with [dedup.ErrFull], and those
// that are completed are still answered.
//
// # What is stored
//
// One string for each operation: a header of 71 bytes and the record. Its name
// is the prefix and a SHA-256 digest of scope, method and ID, each with its
// length before it; the key itself is nowhere in Redis, nor in its slow log.
// A second key, for those who wait, lives some seconds and shares the first
// one's hash tag. Every write has a time to live, so that nothing needs
// sweeping. Records are stored as they are: they hold responses.
//
// # How it decides
//
//	claim      SET key header NX GET PX lease+retention
//	complete   a script: where the header is still the claim's, SET key
//	           header+record PX retention
//
// So an operation costs two round trips, and a replay one. A claim is live
// while the key's time to live is above the retention in its header: the
// server's clock decides, and only the server's. Where SET finds a claim, a
// script judges it by that, and takes it over, if its header is still the one
// that was found. Owner and fence are in the header, so that each settlement
// is a compare-and-set on both.
//
// The first fence of an operation is the client's time in microseconds, and
// each further one is higher than the one before. So fences rise also over a
// loss and after an operation was forgotten, provided that clocks differ by
// less than what lies between.
//
// Time is measured in milliseconds. A lease or a retention that is shorter, or
// longer than a hundred years, is refused, and a fraction of a millisecond is
// rounded up.
//
// # Waiting
//
// A waiter is woken by a message on one channel of the store, on which each
// process listens once it has a waiter. It is sent where somebody waits. A
// message can be lost, so waiters also look for themselves once a second, and
// ten times a second while there is no connection to listen on. With a Ring,
// messages do not reach every shard, and waiters rely on that poll.
//
// # Deadlines
//
// go-redis heeds a context's deadline while it waits for an answer only with
// ContextTimeoutEnabled. [Open] sets it; set it in clients given to [New].
package redisstore
