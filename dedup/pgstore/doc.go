// Package pgstore is two kinds of [dedup.Store] in a PostgreSQL database, on
// pgx.
//
// [Store] promises exactly once: the handler's writes and the recorded outcome
// commit in one transaction. A crash at any point leaves both or neither.
// [Leased] is for handlers whose effects are elsewhere; it promises at most
// one executor at a time.
//
// # The transactional store
//
//	pool, err := pgxpool.New(ctx, url)
//	err = pgstore.Migrate(ctx, pool)
//	store, err := pgstore.New(pool)
//	defer store.Close()
//
// A handler that runs under a claim of the store takes its transaction from
// its context:
//
//	tx, err := pgstore.Tx(ctx)
//	_, err = tx.Exec(ctx, "UPDATE accounts SET balance = balance - $1 WHERE id = $2", amount, id)
//
// It neither commits nor rolls back: an outcome commits, a business error
// undoes the handler's writes and commits the outcome alone, anything else
// rolls back.
//
// # What it costs
//
//	trip 1   BEGIN; try the operation's lock; look for an outcome; SAVEPOINT
//	         ... the handler's statements ...
//	trip n   INSERT the outcome; COMMIT
//
// A handler of two statements makes four round trips, as the bare transaction
// does. A connection's first claim takes one more, to prepare the store's
// statements, and pgxpool pings a connection that was idle for over a second.
// [Store.Once] does with one trip where the handler is a batch of statements.
// A replay takes one trip where this store has recorded or replayed the
// operation lately, otherwise two.
//
// One connection of the pool is held from the claim to its settlement, so a
// pool of n connections executes n operations at a time.
//
// # How it decides
//
// The primary key of the table of outcomes is what keeps an operation from
// taking effect twice: of two transactions that record it, one fails, and its
// handler's writes with it. So that the second does not run at all, a claim
// also holds an advisory lock of its transaction, whose number is a digest of
// the operation. Taking a lock that is free and looking for an outcome only
// read, which is cheaper than writing a row at the claim and updating it at
// the end, and leaves nothing behind when the transaction rolls back.
//
// The outcome is looked for in a statement after the one that took the lock,
// so that it sees what the lock's last holder committed. That holds at READ
// COMMITTED. At REPEATABLE READ and SERIALIZABLE a transaction sees nothing
// that was committed after its first statement, and at SERIALIZABLE what it
// reads can make it fail. There the claim does write its row, in the same
// trip, for the primary key to find out what a look cannot, and completing it
// updates the row: as many trips, and twice the writes. Replays take up to
// three.
//
// A duplicate of an operation that another executes waits for its lock, no
// longer than its context, and answers InProgress after that. Callers of one
// store that wait for one operation share one connection, and all that wait
// together use a quarter of the pool at most; the rest ask again now and then.
//
// Every time is the database's.
//
// # Partitions
//
// Deleting what has expired costs a busy store a write for every row, and
// leaves VACUUM the rest. With [WithPartitions] outcomes go to the table
// retrysafe_outcomes_by_time, which is partitioned by the time of recording,
// and a period in which all has expired is dropped as a whole:
//
//	hourly := pgstore.WithPartitions(time.Hour)
//	err = pgstore.Migrate(ctx, pool, hourly)
//	store, err := pgstore.New(pool, hourly)
//
// What it costs: such a table can have no primary key over the operation, so
// that the advisory lock alone keeps an operation from being recorded twice.
// The second guard, which would catch who records without the lock, is given
// up. It rests on each statement seeing what was committed before it:
// [WithIsolation] above READ COMMITTED is refused. And a claim looks into every
// partition that there is. Choose the period for a dozen of them, a twelfth of
// the retention; a method with a longer one keeps its partitions for as long. A
// claim also locks every partition and its indexes, of which PostgreSQL before
// 18 does 16 cheaply. A store's first claim takes a trip more.
//
// Every store of one storage has to be given the option. One with it and one
// without it use different tables, and each executes what the other has
// recorded. So it is for a new storage, or for a moment at which no caller may
// repeat an operation of before. The period may be changed at any time.
//
// Partitions of the present and the next two periods are made by Migrate, by
// the sweeper and, where those are short, by a claim; the role that does so owns
// the partitioned table. One is dropped by the sweeper a period after its end
// at the earliest, by DETACH PARTITION CONCURRENTLY, which waits for the
// transactions that are open, ten seconds at a time, and for which no claim
// waits. That rules out a default partition: add none. Where there is no
// partition for an outcome, after the database's clock has jumped for example,
// Complete fails, everything is rolled back, and the next claim makes one.
//
// # Isolation
//
// Handlers run at READ COMMITTED, whatever the database's default is, unless
// [WithIsolation] says otherwise. A serialization failure or a deadlock is an
// error of the handler's statement or of Complete, and everything is rolled
// back; nothing is tried again in here. Repeating the call with its key is
// safe and is for whoever owns the hop's retries.
//
// # What ends a transaction
//
// The server rolls back when it learns that the client is gone. Where a
// machine can vanish without closing its connections, let the server notice:
// set tcp_keepalives_idle, client_connection_check_interval or
// idle_in_transaction_session_timeout there. Until then its operations answer
// InProgress. Claims of this store do not end with their lease.
//
// # Poolers
//
// Behind PgBouncer in transaction mode the store works where prepared
// statements do: PgBouncer 1.21 or later with max_prepared_statements above
// 0, or any version with default_query_exec_mode=exec in the pool's connection
// string (or another of pgx's modes that prepare nothing). Otherwise claims
// fail with an error that says so. [Leased] needs a session for LISTEN; behind
// such a pooler its waiters are not woken and find out by a poll, within a
// second.
//
// # Keys
//
// Scope, method and ID are stored as they are, in bytea columns, and may have
// 2,000 bytes together. They stand in no error of this package, and pgx's
// tracers do not see them, or see "(hidden)". A PostgreSQL server that logs
// parameters (log_parameter_max_length, auto_explain) logs them.
package pgstore
