// Package replicatest tests the engine as a service runs it: in several
// replicas on one storage, with real servers, real processes and real signals.
// It is nothing but a test.
//
// For SQLite, PostgreSQL (transactional and leased) and Redis it shows that
//
//   - a duplicate that comes to another replica waits for the first one's
//     outcome, is woken, and gets it;
//   - of processes that compete for the same operations one executes each;
//   - the operation of a replica that was killed in its handler is executed by
//     another: at once where claims are transactions, after the lease elsewhere,
//     and not at all where the operation says Reject;
//   - a replica that was stopped for longer than its lease, and goes on, changes
//     nothing any more;
//   - a store that is away, or does not answer, executes nothing, keeps nobody
//     waiting, and is used again as soon as it is back;
//   - a cache in front of each store changes no answer.
//
// # Clocks
//
// What replicas believe the time to be does not matter. PostgreSQL is tested
// with a database whose clock is ten minutes ahead of the replicas', or ten
// minutes behind: that is what replicas with wrong clocks look like to it. Redis
// is sent no time of day, so that there is nothing to shift, but in the fence of
// an operation's first claim: that one is tested from the future. And the source
// of the engine and of these stores is searched for reading the time of day.
// Processes on one SQLite file are on one machine and have one clock.
package replicatest
