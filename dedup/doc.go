// Package dedup executes an operation once, however often it is asked for.
//
// An operation is named by a [Key]: who asks (scope), what for (method), and
// an idempotency key that the caller makes once and repeats with every
// attempt. The first attempt executes; every later one gets the outcome of the
// first, without executing. [Engine.Do] is all of it:
//
//	engine, err := dedup.NewEngine(store)
//	...
//	result, err := engine.Do(ctx, dedup.Operation{Key: key, Fingerprint: fp},
//		func(ctx context.Context) (dedup.Outcome, error) {
//			return debit(ctx, request)
//		})
//
// # What happens
//
// The right to execute is a claim in a [Store]. What the store answers decides:
//
//	            ┌ Claimed ──── fn runs ──┬ Terminal ── the outcome is recorded
//	            │                        ├ NoEffect ── the claim is released
//	            │                        └ Uncertain ─ undone, or left to its lease
//	Do ─ claim ─┼ Completed ── the recorded outcome is returned
//	            ├ InProgress ─ wait, then ask again; at last *InProgressError
//	            ├ Reused ───── ErrKeyReused: the key came with another request
//	            └ Unknown ──── ErrOutcomeUnknown, where the operation says Reject
//
// [Classify] gives an outcome its class, and [Execution.Settle] overrules it.
// Of the callers of one engine that ask for one operation at the same time, one
// goes to the store; the others wait for it in memory, up to [WithWait] and
// their own deadlines, and are answered by what it found.
//
// What has been claimed is finished: fn does not end with its caller, but after
// [WithMaxExecution], and what it answers is recorded.
//
// # What is promised
//
// It depends on the store, which says it with [Store.Promise]:
//
//   - [ExactlyOnce]: fn's writes, made in the store's transaction, and the
//     recorded outcome commit together. A crash at any point leaves both or
//     neither. Where the commit fails, or its answer is lost, the caller gets a
//     [*StoreError], and the retry finds out which it was.
//   - [OneAtATime]: one executor at a time, and its outcome replayed. A claim
//     has a lease, which is renewed while fn runs. After a crash between the
//     effect and its record it is not known whether the operation executed,
//     and when the lease has ended [Operation.OnUnknown] decides. Where the
//     effect can check [Execution.Fence], a slow execution that lost its lease
//     can be kept from doing harm.
//
// An outcome that could not be recorded in a store of leases is returned all
// the same, because its effect stands; Result.Unrecorded says so, and the
// engine goes on trying until the lease ends.
//
// # Nesting
//
// A handler may ask for other operations on the same store, with its context:
// in a transactional store they join its transaction. To ask for the operation
// that is being executed is [ErrNested].
//
// # Stores
//
// [NewMemory] keeps everything in the process: for tests, and for services of
// one process whose effects are in memory too. Packages sqlitestore, pgstore
// and redisstore keep it longer. Package storetest checks a store of your own.
//
// [NewCache] puts a bounded memory of outcomes in front of a remote store, so
// that a repeat that comes to the replica that executed costs no round trip. It
// is optional, and never changes an answer.
package dedup
