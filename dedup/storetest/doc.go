// Package storetest is what every [dedup.Store] must pass: the conformance
// suite, and a benchmark beside it. It needs the standard library and package
// dedup alone.
//
// A store of your own is tested by a function that makes a [Storage], two
// stores over one storage, and declares what they can do:
//
//	func TestStore(t *testing.T) { storetest.Run(t, newStorage) }
//
//	func newStorage(tb testing.TB) storetest.Storage {
//		url := startServer(tb)
//		return storetest.Storage{
//			First:  open(tb, url),
//			Second: open(tb, url),
//			Restart: func(tb testing.TB) (first, second dedup.Store) {
//				return open(tb, url), open(tb, url)
//			},
//		}
//	}
//
// Let open register the store's Close with tb.Cleanup. Give each store its own
// connections, and nothing that the other one sees but the storage: what works
// only because both share a variable does not work in two processes.
//
// # What is declared
//
// Nothing is skipped. An ability that is declared is tested, and where it is
// not, its absence is:
//
//   - [dedup.Store.Promise] decides between leases and transactions. A store
//     that promises [dedup.OneAtATime] is tested for takeovers, fences and
//     renewals, and must refuse [dedup.Completion.Undo]. One that promises
//     [dedup.ExactlyOnce] needs Effects and Restart, and is tested for what
//     becomes of a handler's writes.
//   - ConcurrentClaims: many open transactions, or one at a time and never two.
//   - MinDuration: the shortest lease is honoured to the millisecond, and half
//     of it is refused.
//   - MaxRecord: a record of that size is kept whole, and one byte more is
//     [dedup.ErrTooLarge].
//   - [dedup.Waiter], where both stores are one.
//
// # Transactional stores
//
// [Effects] plays the handler: it writes in the transaction of the claim whose
// context it is given, as a user's handler would, and reads what is committed.
// With them the suite sees that writes and record are committed together and
// undone together, by Undo, by Release, by a refused outcome, by a failed
// statement, by a claim around them and by the death of the process; and that
// nothing is written under a claim that is settled.
//
// A claim that is a transaction may block others. So the suite asks for what
// another holds with a time limit, and takes [dedup.InProgress] for an answer,
// or, from a storage with one writer, the context's error.
//
// # Time
//
// The suite waits for leases and retentions of 150 ms to end, or MinDuration
// where that is longer. That they do not end early, and not late, is judged by
// when requests were sent and when their answers came, with a tolerance of 10 ms
// between the store's clock and this process's: a slow or busy machine makes a
// case slow, and does not fail it. A step back of the store's clock can.
//
// # Is the suite itself right?
//
// Its own tests run it on more than a hundred stores with one bug each: a fence
// that is not checked, a lease rounded to seconds, an undo that keeps the
// writes. Each bug must be found, each case must find one, and the honest
// stores must pass.
package storetest
