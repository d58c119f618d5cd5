package storetest

import (
	"testing"

	"github.com/retrysafe/retrysafe/dedup"
)

// Run runs every case that applies to the stores as a subtest, each on a
// storage that newStorage makes for it and cleans up with the given TB.
//
// The storage behind the stores need not be empty nor unused: every case works
// on operations of its own. Their keys have up to 255 bytes in each part, and
// any bytes. What a storage declares must not change from call to call. Cases run one after another and take some ten seconds in all, most
// of it spent waiting for leases and retentions to end.
func Run(t *testing.T, newStorage func(testing.TB) Storage) {
	t.Helper()
	declared := newStorage(t)
	if err := declared.validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases() {
		if c.when(declared) {
			t.Run(c.name, func(t *testing.T) { c.run(&suite{TB: t, Storage: newStorage(t)}) })
		}
	}
}

// testCase is one thing that stores promise.
type testCase struct {
	name string
	when condition
	run  func(*suite)
}

// condition says which storages a case is for. Where an ability decides, there
// is another case for those without it, or nothing to see.
type condition func(Storage) bool

func every(Storage) bool            { return true }
func leased(st Storage) bool        { return !transactional(st) }
func concurrent(st Storage) bool    { return leased(st) || st.ConcurrentClaims }
func oneWriter(st Storage) bool     { return !concurrent(st) }
func limited(st Storage) bool       { return st.MaxRecord != 0 }
func durable(st Storage) bool       { return st.Restart != nil }
func durablyLeased(st Storage) bool { return durable(st) && leased(st) }
func wakingLeased(st Storage) bool  { return waking(st) && leased(st) }

func transactional(st Storage) bool { return st.First.Promise() == dedup.ExactlyOnce }

func waking(st Storage) bool {
	_, ok := st.First.(dedup.Waiter)
	return ok
}

// cases returns all of them.
func cases() []testCase {
	return []testCase{
		{"a new operation is claimed, as the first attempt", every, newOperation},
		{"a completed operation answers with its record", every, completedOperation},
		{"a claimed operation is in progress for everyone else", every, heldOperation},
		{"what is left of a lease shrinks", leased, leaseLeft},
		{"of 64 claims at once one wins", every, oneWinner},
		{"of 64 that ask at once one executes and all get its record", every, oneExecution},
		{"a claim repeated by its owner is the same claim", leased, repeatedClaim},
		{"a claim repeated by its owner is no second transaction", transactional, repeatedTransaction},
		{"a claim outlives the context that it was asked for with", every, outlivedContext},
		{"a claim's context is its parent's child", every, claimContext},
		{"claims of different operations are open together", concurrent, openTogether},
		{"a storage with one writer opens one claim at a time", oneWriter, openAlone},
		{"many operations at once all come to their end", every, manyOperations},

		{"another request is refused while the first is in progress", leased, reusedWhileHeld},
		{"another request does not get an open transaction's operation", transactional, reusedWhileOpen},
		{"another request is refused when the first is completed", every, reusedWhenCompleted},
		{"another request is refused when the first is unsettled", leased, reusedWhenUnsettled},
		{"requests without a fingerprint repeat each other", every, uncompared},

		{"a claim is taken over when its lease has ended and not before", leased, takeover},
		{"of 64 takeovers at once one wins", leased, oneTakeover},
		{"without takeover an operation is unknown when its lease has ended", leased, unknownWithoutTakeover},
		{"a stale owner cannot complete", leased, staleComplete},
		{"a stale owner cannot renew", leased, staleRenew},
		{"a stale owner cannot release", leased, staleRelease},
		{"a stale owner stays so when its successor has released", leased, staleAfterRelease},
		{"a stale owner that asks again is not recognised", leased, staleRepeat},
		{"a claim can be completed after its lease while it is the latest", leased, lateComplete},
		{"a claim can be renewed after its lease while it is the latest", leased, lateRenew},
		{"a claim can be released after its lease while it is the latest", leased, lateRelease},
		{"of completing late and taking over one succeeds", leased, lateOrTakeover},
		{"a renewal makes the lease end later or sooner, counted from now", leased, renewal},
		{"renewals do not disturb a completion beside them", leased, renewalBesideCompletion},
		{"a renewal of a settled claim changes nothing", leased, renewalOfSettled},
		{"fences rise over takeovers and releases, and attempts count", leased, risingFence},
		{"a transaction outlives the lease of its claim", transactional, outlivedLease},

		{"completing again with the same record is as completing once", every, repeatedComplete},
		{"completing again with another record changes nothing", every, changedComplete},
		{"a released operation can be claimed at once, under a higher fence", every, released},
		{"releasing again is as releasing once", every, repeatedRelease},
		{"of 64 claims after a release one wins", every, oneAfterRelease},
		{"a released claim cannot be completed", every, completeAfterRelease},
		{"a completed claim cannot be released", every, releaseAfterComplete},
		{"a release beside claims gives the operation to one", every, releaseBesideClaims},
		{"a leased store refuses to undo", leased, refusedUndo},

		{"a record is kept for its retention and no longer", every, recordRetention},
		{"what is forgotten is forgotten with its fingerprint", every, forgottenFingerprint},
		{"an unsettled claim is forgotten when its retention ends and not before", leased, unsettledRetention},
		{"a renewal moves the retention with the lease", leased, renewedRetention},
		{"a record outlives its claim's lease and retention", every, separateTimes},
		{"the shortest retention is honoured", every, shortestRetention},
		{"the shortest lease is honoured", leased, shortestLease},
		{"the longest retention does not end in the past", every, longestRetention},
		{"the longest lease does not end in the past", leased, longestLease},
		{"a retention that cannot be honoured is refused", every, refusedRetention},
		{"a lease that cannot be honoured is refused", leased, refusedLease},

		{"records are bytes like any other", every, opaqueRecords},
		{"a record is the store's own", every, ownedRecord},
		{"the largest record is kept whole", every, largestRecord},
		{"a larger record is refused", limited, tooLargeRecord},
		{"scope, method and key tell operations apart", every, distinctOperations},
		{"operations of one key in two scopes or methods live apart", every, separateClaims},

		{"a claim whose context has ended changes nothing", every, endedClaim},
		{"a completion whose context has ended changes nothing", every, endedComplete},
		{"a release whose context has ended changes nothing", leased, endedRelease},
		{"a release whose context has ended can be repeated", transactional, endedTransaction},
		{"a renewal whose context has ended changes nothing", leased, endedRenew},

		{"nobody waits for an operation that nobody holds", waking, waitForNobody},
		{"a completion wakes those who wait", waking, wokenByComplete},
		{"a release wakes those who wait", waking, wokenByRelease},
		{"the end of a lease wakes those who wait", wakingLeased, wokenByLease},
		{"a wait ends with its context", waking, waitInVain},

		{"writes and record are committed together", transactional, committedTogether},
		{"undo undoes the writes and keeps the record", transactional, undoneWrites},
		{"a release undoes the writes", transactional, releasedWrites},
		{"a refused outcome takes the writes along", transactional, refusedOutcome},
		{"a completion without time takes the writes along", transactional, endedOutcome},
		{"a business error is recorded after a failed statement", transactional, failedStatement},
		{"after an overlooked failure both are committed or neither", transactional, overlookedFailure},
		{"nothing is written under a settled claim", transactional, settledContext},
		{"nothing is written without a claim", transactional, unclaimedWrite},
		{"a duplicate of a transaction gets what it committed", transactional, blockedDuplicate},
		{"a duplicate of a transaction that is undone executes", transactional, blockedSuccessor},
		{"operations at once keep or lose each its own writes", transactional, separateFates},
		{"of 64 that execute one operation one writes", transactional, racingWrites},

		{"a nested claim commits with the outer one", transactional, nestedComplete},
		{"a nested claim is undone by the outer one's release", transactional, nestedInReleased},
		{"a nested claim is undone by the outer one's undo", transactional, nestedInUndone},
		{"a nested release undoes the nested writes alone", transactional, nestedRelease},
		{"a nested undo undoes the nested writes alone", transactional, nestedUndo},
		{"a nested claim is replayed inside the outer one", transactional, nestedReplay},
		{"an operation that claims itself does not wait for itself", transactional, nestedInItself},

		{"a record outlives a restart", durable, durableRecord},
		{"a leased claim outlives a restart", durablyLeased, durableClaim},
		{"fences rise over a restart", durable, durableFence},
		{"a restart undoes an open transaction", transactional, cutTransaction},

		{"an engine replays outcomes as they were", every, replayedOutcomes},
		{"an engine does not execute what it cannot read", every, unreadableRecord},
		{"an engine refuses a key that comes back with another request", every, reusedKey},
		{"of 64 calls of two engines one executes", every, oneExecutionByEngines},
		{"an engine executes an operation with a large outcome once", every, oversizeOutcome},
		{"an engine undoes the writes of a business error", transactional, businessError},
		{"an engine undoes the writes of an uncertain outcome", transactional, uncertainOutcome},
		{"an engine holds an uncertain outcome to the end of its lease", leased, unknownOutcome},
	}
}
