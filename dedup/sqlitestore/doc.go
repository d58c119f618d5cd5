// Package sqlitestore is a [dedup.Store] in an SQLite database that promises
// exactly once: the handler's writes and the recorded outcome commit in one
// transaction. A crash at any point leaves both or neither.
//
//	store, err := sqlitestore.Open(ctx, "ledger.db")
//
// # The handler's transaction
//
// A handler does its SQL through [Tx], and nowhere else:
//
//	tx, err := sqlitestore.Tx(ctx)
//	if err != nil {
//		return err
//	}
//	_, err = tx.ExecContext(ctx, `UPDATE account SET balance = balance - ? WHERE id = ?`, amount, id)
//
// What it writes through [Store.DB] instead is outside of the promise, and
// waits for the very lock that the handler itself holds.
//
// The transaction is the store's to end. BEGIN, COMMIT and ROLLBACK are
// refused, and so is whatever would change the shared connection for the next
// handler: ATTACH, DETACH, and PRAGMAs that set something, but for
// defer_foreign_keys. Savepoints of the handler's own are fine. Once the
// execution is settled the transaction answers [sql.ErrTxDone], and rows and
// statements that were left open are closed.
//
// A handler that executes another operation of the same database, with the
// context it was given, joins its own transaction: the inner operation's
// writes and record last if the outer's do. One inner operation at a time; a
// second one beside it is refused with [ErrNestedOpen].
//
// # One writer
//
// SQLite has one writer, and a handler holds it while it runs. So a handler
// must not wait for anything but the database: no network, no sleep. Its
// execution's time limit interrupts its statements, and [Store.Stats] tells
// for how long handlers held the writer. SQLite undoes the whole transaction
// where it interrupts a statement that writes, and then everyone whose outcome
// waited for the same commit gets an error, and may try again.
//
// # Group commit
//
// Making a commit durable costs a disk's flush. Executions that wait for the
// writer share one:
//
//	BEGIN IMMEDIATE
//	  SAVEPOINT  first's writes, first's record   RELEASE
//	  SAVEPOINT  second's writes, second's record RELEASE
//	COMMIT       now first and second are answered
//
// Nobody is answered before the commit that makes its answer true, and if that
// fails nobody is told of success. A caller that finds nobody waiting behind
// it commits at once, so that a lone caller never waits for company.
// [WithGroupLimit] bounds a group.
//
// # Several processes, and crashes
//
// Any number of processes on one machine may use the file, each with a Store
// of its own; it must not lie on a network file system. They take turns by
// SQLite's lock, which is a poll: a duplicate in another process learns of the
// outcome a few milliseconds after the commit. A claim is a transaction and
// has no lease: one whose process dies is gone at once, with all it wrote.
//
// # Time and space
//
// Time is the machine's clock, in microseconds. A record whose retention has
// passed is gone for every claim from that moment; its row is deleted later,
// in small batches, when the writer is free.
//
// Rows are found by scope, method and key as they are, never by a digest of
// them, so that time-ordered keys append to the index instead of scattering
// over it.
package sqlitestore
