package storetest

import (
	"reflect"
	"testing"
)

const (
	none bug = ""

	// Of leased stores.
	restartForgetsRecords      bug = "a restart forgets records"
	restartForgetsClaims       bug = "a restart forgets claims"
	restartForgetsFences       bug = "a restart forgets fences"
	gluesKeys                  bug = "the parts of a key are glued together"
	gluesKeysWithNUL           bug = "the parts of a key are glued together with NUL bytes"
	foldsKeys                  bug = "keys are folded to lower case"
	trimsKeys                  bug = "white space around keys is trimmed"
	cutsKeys                   bug = "keys are cut to 254 bytes"
	ignoresScope               bug = "the scope is ignored"
	ignoresMethod              bug = "the method is ignored"
	repairsUTF8                bug = "keys are made valid UTF-8"
	roundsUp                   bug = "durations are rounded up to seconds"
	roundsDown                 bug = "durations are rounded down to seconds"
	overflows                  bug = "long durations overflow"
	leaseEndsEarly             bug = "a lease ends early"
	leaseEndsLate              bug = "a lease ends late"
	leaseIsIgnored             bug = "a lease is ignored"
	leaseNeverEnds             bug = "a lease never ends"
	leaseLeftIsTheLease        bug = "what is left of a lease is all of it"
	forgetsEarly               bug = "a record is forgotten early"
	forgetsLate                bug = "a record is forgotten late"
	neverForgets               bug = "a record is never forgotten"
	forgetsAtOnce              bug = "a record is forgotten at once"
	unsettledForgetsEarly      bug = "an unsettled claim is forgotten with its lease"
	unsettledNeverForgets      bug = "an unsettled claim is never forgotten"
	keepsAttempts              bug = "attempts are remembered for ever"
	anyLease                   bug = "any lease is accepted"
	anyRenewal                 bug = "any renewal is accepted"
	anyRetention               bug = "any retention is accepted"
	waitNeverWakes             bug = "a wait is never woken"
	waitMissesComplete         bug = "a wait misses completions"
	waitMissesRelease          bug = "a wait misses releases"
	waitSleepsThroughLease     bug = "a wait sleeps through the end of a lease"
	waitIgnoresContext         bug = "a wait ignores its context"
	waitGivesUp                bug = "a wait gives up"
	waitsForNobody             bug = "a wait for nobody waits"
	claimIgnoresContext        bug = "a claim ignores that its context has ended"
	completeIgnoresContext     bug = "a completion ignores that its context has ended"
	renewIgnoresContext        bug = "a renewal ignores that its context has ended"
	releaseIgnoresContext      bug = "a release ignores that its context has ended"
	claimEndsWithContext       bug = "a claim ends with the context it was asked for with"
	contextLosesValues         bug = "a claim's context has no values"
	contextLosesEnd            bug = "a claim's context does not end"
	oneClaimAtATime            bug = "one operation is claimed at a time"
	looksBeforeItClaims        bug = "others get in between a look and a claim"
	looksBeforeItCompletes     bug = "others get in between a look and a completion"
	refusesItsOwner            bug = "a repeated claim is refused"
	recognisesAnyone           bug = "anyone is taken for the owner"
	repeatIsAnotherClaim       bug = "a repeated claim is another one"
	emptyIsNone                bug = "an empty record is none"
	alwaysTakesOver            bug = "a claim takes over without being allowed to"
	unknownOnce                bug = "an unknown operation is unknown once"
	ignoresFingerprint         bug = "fingerprints are ignored"
	ignoresFingerprintVersion  bug = "versions of fingerprints are ignored"
	comparesFingerprintsShort  bug = "the beginnings of fingerprints are compared"
	inProgressBeforeReused     bug = "in progress is judged before reused"
	completedBeforeReused      bug = "completed is judged before reused"
	unknownBeforeReused        bug = "unknown is judged before reused"
	uncomparedIsReused         bug = "a request without a fingerprint is refused"
	reusedWithWrongFingerprint bug = "reused answers with the new fingerprint"
	reusedTakesFingerprint     bug = "a refused request leaves its fingerprint"
	reusedReleases             bug = "a refused request releases the operation"
	forgetsAttempts            bug = "attempts are not counted"
	countsFromZero             bug = "attempts are counted from 0"
	fenceStays                 bug = "fences do not rise"
	fenceIsZero                bug = "the first fence is 0"
	completeIgnoresFence       bug = "a completion does not check the fence"
	renewIgnoresFence          bug = "a renewal does not check the fence"
	releaseIgnoresFence        bug = "a release does not check the fence"
	pretendsToUndo             bug = "a leased store says that it has undone"
	completesAgain             bug = "a second completion replaces the record"
	completesReleased          bug = "a released claim is completed"
	refusesSecondComplete      bug = "a second completion is refused"
	refusesLateComplete        bug = "a late completion is refused"
	refusesLateRenew           bug = "a late renewal is refused"
	refusesLateRelease         bug = "a late release is refused"
	refusesSecondRelease       bug = "a second release is refused"
	releasesCompleted          bug = "a completed claim is released"
	releaseDoesNothing         bug = "a release does nothing"
	releaseForgets             bug = "a release forgets the fence"
	keepsAnySize               bug = "records of any size are kept"
	cutsLargeRecords           bug = "large records are cut"
	tooLargeIsAnyError         bug = "a record too large is any error"
	tooLargeEndsClaim          bug = "a record too large ends the claim"
	keepsLessThanDeclared      bug = "the largest record is cut"
	aliasesRecords             bug = "a record is the caller's slice"
	cutsRecordsAtNUL           bug = "records end at a NUL byte"
	trimsRecords               bug = "white space around records is trimmed"
	dropsUnreadableRecords     bug = "records that cannot be read are dropped"
	retentionCountsFromClaim   bug = "retention counts from the claim"
	recordLivesAsItsClaim      bug = "a record lives as long as its claim would have"
	renewReopens               bug = "a renewal reopens a completed operation"
	renewMovesRecord           bug = "a renewal moves the retention of a record"
	renewRevives               bug = "a renewal revives a released claim"
	renewDoesNothing           bug = "a renewal does nothing"
	renewAdds                  bug = "a renewal adds to the lease"
	renewLeavesRetention       bug = "a renewal leaves the retention where it was"
	renewCountsAsAttempt       bug = "a renewal counts as an attempt"

	// Of transactional stores.
	hidesConcurrency         bug = "many writers are declared as one"
	restartCommits           bug = "a restart commits what is open"
	restartKeepsTransactions bug = "a restart leaves transactions open"
	doesNotLookAfterWaiting  bug = "after a wait it is not looked at what was committed"
	completedByAnyEnd        bug = "whatever ends is taken for completed"
	ignoresHolders           bug = "open transactions are ignored"
	openIgnoresFingerprint   bug = "another request gets an open transaction's operation"
	waitEndsInError          bug = "a wait in vain ends in an error"
	writerIsInProgress       bug = "waiting for the writer is being in progress"
	leaseEndsTransaction     bug = "a lease ends a transaction"
	writesAtOnce             bug = "writes are committed at once"
	writesUnderSettled       bug = "a settled claim writes"
	writesUnderNextClaim     bug = "a settled claim writes into the next one's transaction"
	writesWithoutClaim       bug = "a write needs no claim"
	recordsWithoutWrites     bug = "the record is committed without the writes"
	refusalKeepsWrites       bug = "a refused outcome commits the writes"
	undoKeepsWrites          bug = "undo keeps the writes"
	undoDropsRecord          bug = "undo drops the record"
	undoesOthersToo          bug = "undo undoes what others have written"
	failurePreventsUndo      bug = "a failed statement prevents undo"
	overlooksFailure         bug = "a failed transaction is taken for committed"
	releaseKeepsWrites       bug = "a release commits the writes"
	releaseWithoutTimeHolds  bug = "a release without time holds the operation for ever"
	nestedCommitsAtOnce      bug = "a nested claim commits at once"
	nestedRecordsSurvive     bug = "nested records survive what undoes them"
	nestedUndoUndoesAll      bug = "a nested undo undoes all"
	nestedReleaseUndoesAll   bug = "a nested release undoes all"
	nestedSeesCommittedOnly  bug = "a nested claim sees committed records only"
	nestedWaitsForItself     bug = "a nested claim waits for itself"
	nestedClaimsItself       bug = "an operation gets a claim of itself"
)

// storage makes a storage with a bug.
type storage = func(bug) func(testing.TB) Storage

// mutants are stores with one bug each, and cases that must find it.
var mutants = []struct {
	bug     bug
	storage storage
	foundBy []func(*suite)
}{
	{restartForgetsRecords, newLeased, found(durableRecord)},
	{restartForgetsClaims, newLeased, found(durableClaim)},
	{restartForgetsFences, newLeased, found(durableFence)},

	{gluesKeys, newLeased, found(distinctOperations)},
	{gluesKeysWithNUL, newLeased, found(distinctOperations)},
	{foldsKeys, newLeased, found(distinctOperations)},
	{trimsKeys, newLeased, found(distinctOperations)},
	{cutsKeys, newLeased, found(distinctOperations)},
	{repairsUTF8, newLeased, found(distinctOperations)},
	{ignoresScope, newLeased, found(distinctOperations, separateClaims)},
	{ignoresMethod, newLeased, found(distinctOperations, separateClaims)},

	{roundsUp, newLeased, found(takeover, recordRetention, unsettledRetention, shortestRetention, shortestLease)},
	{roundsDown, newLeased, found(takeover, recordRetention)},
	{overflows, newLeased, found(longestRetention, longestLease)},
	{leaseEndsEarly, newLeased, found(takeover, unknownWithoutTakeover, renewal)},
	{leaseEndsLate, newLeased, found(takeover, unknownWithoutTakeover, renewal)},
	{leaseIsIgnored, newLeased, found(takeover, heldOperation, oneWinner, outlivedContext)},
	{leaseNeverEnds, newLeased, found(takeover, unknownWithoutTakeover, risingFence, unknownOutcome)},
	{leaseLeftIsTheLease, newLeased, found(leaseLeft)},
	{forgetsEarly, newLeased, found(recordRetention, forgottenFingerprint)},
	{forgetsLate, newLeased, found(recordRetention, forgottenFingerprint)},
	{neverForgets, newLeased, found(recordRetention, shortestRetention)},
	{forgetsAtOnce, newLeased, found(recordRetention, completedOperation, oversizeOutcome)},
	{unsettledForgetsEarly, newLeased, found(unsettledRetention, unknownWithoutTakeover)},
	{unsettledNeverForgets, newLeased, found(unsettledRetention)},
	{keepsAttempts, newLeased, found(recordRetention, unsettledRetention)},
	{anyLease, newLeased, found(refusedLease)},
	{anyRenewal, newLeased, found(refusedLease)},
	{anyRetention, newLeased, found(refusedRetention)},

	{waitNeverWakes, newLeased, found(wokenByComplete, wokenByRelease)},
	{waitMissesComplete, newLeased, found(wokenByComplete)},
	{waitMissesRelease, newLeased, found(wokenByRelease)},
	{waitSleepsThroughLease, newLeased, found(wokenByLease)},
	{waitIgnoresContext, newLeased, found(waitInVain)},
	{waitGivesUp, newLeased, found(waitInVain)},
	{waitsForNobody, newLeased, found(waitForNobody)},

	{claimIgnoresContext, newLeased, found(endedClaim)},
	{completeIgnoresContext, newLeased, found(endedComplete)},
	{renewIgnoresContext, newLeased, found(endedRenew)},
	{releaseIgnoresContext, newLeased, found(endedRelease)},
	{claimEndsWithContext, newLeased, found(outlivedContext)},
	{contextLosesValues, newLeased, found(claimContext)},
	{contextLosesEnd, newLeased, found(claimContext)},

	{oneClaimAtATime, newLeased, found(openTogether)},
	{looksBeforeItClaims, newLeased, found(oneWinner, oneExecution, oneTakeover, oneAfterRelease, releaseBesideClaims, oneExecutionByEngines)},
	{looksBeforeItCompletes, newLeased, found(lateOrTakeover)},
	{refusesItsOwner, newLeased, found(repeatedClaim)},
	{recognisesAnyone, newLeased, found(heldOperation, staleRepeat, oneWinner)},
	{repeatIsAnotherClaim, newLeased, found(repeatedClaim)},
	{emptyIsNone, newLeased, found(opaqueRecords, unreadableRecord)},
	{alwaysTakesOver, newLeased, found(unknownWithoutTakeover, unknownOutcome)},
	{unknownOnce, newLeased, found(unknownWithoutTakeover, reusedWhenUnsettled)},

	{ignoresFingerprint, newLeased, found(reusedWhileHeld, reusedWhenCompleted, reusedWhenUnsettled, reusedKey)},
	{ignoresFingerprintVersion, newLeased, found(reusedWhenCompleted)},
	{comparesFingerprintsShort, newLeased, found(reusedWhenCompleted)},
	{inProgressBeforeReused, newLeased, found(reusedWhileHeld)},
	{completedBeforeReused, newLeased, found(reusedWhenCompleted)},
	{unknownBeforeReused, newLeased, found(reusedWhenUnsettled)},
	{uncomparedIsReused, newLeased, found(uncompared)},
	{reusedWithWrongFingerprint, newLeased, found(reusedWhileHeld, reusedWhenCompleted)},
	{reusedTakesFingerprint, newLeased, found(reusedWhileHeld, reusedWhenCompleted)},
	{reusedReleases, newLeased, found(reusedWhileHeld, reusedWhenCompleted)},

	{forgetsAttempts, newLeased, found(takeover, risingFence)},
	{countsFromZero, newLeased, found(newOperation)},
	{fenceStays, newLeased, found(takeover, released, risingFence, staleAfterRelease)},
	{fenceIsZero, newLeased, found(newOperation)},
	{completeIgnoresFence, newLeased, found(staleComplete)},
	{renewIgnoresFence, newLeased, found(staleRenew)},
	{releaseIgnoresFence, newLeased, found(staleRelease)},

	{pretendsToUndo, newLeased, found(refusedUndo)},
	{completesAgain, newLeased, found(changedComplete)},
	{completesReleased, newLeased, found(completeAfterRelease)},
	{refusesSecondComplete, newLeased, found(repeatedComplete)},
	{refusesLateComplete, newLeased, found(lateComplete)},
	{refusesLateRenew, newLeased, found(lateRenew)},
	{refusesLateRelease, newLeased, found(lateRelease)},
	{refusesSecondRelease, newLeased, found(repeatedRelease)},
	{releasesCompleted, newLeased, found(releaseAfterComplete)},
	{releaseDoesNothing, newLeased, found(released, lateRelease)},
	{releaseForgets, newLeased, found(released, oneAfterRelease)},

	{keepsAnySize, newLeased, found(tooLargeRecord)},
	{cutsLargeRecords, newLeased, found(tooLargeRecord)},
	{tooLargeIsAnyError, newLeased, found(tooLargeRecord)},
	{tooLargeEndsClaim, newLeased, found(tooLargeRecord)},
	{keepsLessThanDeclared, newLeased, found(largestRecord)},
	{aliasesRecords, newLeased, found(ownedRecord)},
	{cutsRecordsAtNUL, newLeased, found(opaqueRecords, replayedOutcomes)},
	{trimsRecords, newLeased, found(opaqueRecords)},
	{dropsUnreadableRecords, newLeased, found(unreadableRecord, manyOperations)},

	{retentionCountsFromClaim, newLeased, found(recordRetention)},
	{recordLivesAsItsClaim, newLeased, found(separateTimes)},
	{renewReopens, newLeased, found(renewalBesideCompletion, renewalOfSettled)},
	{renewMovesRecord, newLeased, found(renewalOfSettled)},
	{renewRevives, newLeased, found(renewalOfSettled)},
	{renewDoesNothing, newLeased, found(renewal, renewedRetention)},
	{renewAdds, newLeased, found(renewal)},
	{renewLeavesRetention, newLeased, found(renewedRetention)},
	{renewCountsAsAttempt, newLeased, found(renewal)},

	{hidesConcurrency, newConcurrent, found(openAlone)},
	{writerIsInProgress, newSerial, found(openAlone)},
	{waitEndsInError, newConcurrent, found(heldOperation)},
	{ignoresHolders, newConcurrent, found(heldOperation, oneWinner, oneExecution, racingWrites)},
	{openIgnoresFingerprint, newConcurrent, found(reusedWhileOpen)},
	{repeatIsAnotherClaim, newConcurrent, found(repeatedTransaction)},
	{doesNotLookAfterWaiting, newConcurrent, found(blockedDuplicate, oneExecution, racingWrites)},
	{completedByAnyEnd, newConcurrent, found(blockedSuccessor)},
	{claimEndsWithContext, newConcurrent, found(outlivedContext)},
	{leaseEndsTransaction, newConcurrent, found(outlivedLease)},
	{fenceStays, newConcurrent, found(released)},
	{ignoresFingerprint, newSerial, found(reusedWhenCompleted)},
	{anyRetention, newConcurrent, found(refusedRetention)},
	{completeIgnoresContext, newConcurrent, found(endedComplete, endedOutcome)},
	{releaseWithoutTimeHolds, newConcurrent, found(endedTransaction)},
	{retentionCountsFromClaim, newConcurrent, found(recordRetention)},

	{writesAtOnce, newConcurrent, found(committedTogether)},
	{writesUnderSettled, newConcurrent, found(settledContext)},
	{writesUnderNextClaim, newSerial, found(settledContext)},
	{writesWithoutClaim, newConcurrent, found(unclaimedWrite)},
	{recordsWithoutWrites, newConcurrent, found(committedTogether, separateFates)},
	{refusalKeepsWrites, newConcurrent, found(refusedOutcome, endedOutcome)},
	{undoKeepsWrites, newConcurrent, found(undoneWrites, businessError)},
	{undoDropsRecord, newConcurrent, found(undoneWrites, businessError)},
	{undoesOthersToo, newConcurrent, found(separateFates)},
	{failurePreventsUndo, newConcurrent, found(failedStatement)},
	{overlooksFailure, newConcurrent, found(overlookedFailure)},
	{releaseKeepsWrites, newConcurrent, found(releasedWrites, uncertainOutcome, oversizeOutcome)},

	{nestedCommitsAtOnce, newSerial, found(nestedComplete, nestedInReleased, nestedInUndone)},
	{nestedRecordsSurvive, newSerial, found(nestedInReleased, nestedInUndone)},
	{nestedUndoUndoesAll, newSerial, found(nestedUndo)},
	{nestedReleaseUndoesAll, newSerial, found(nestedRelease)},
	{nestedSeesCommittedOnly, newSerial, found(nestedReplay)},
	{nestedWaitsForItself, newSerial, found(nestedInItself)},
	{nestedClaimsItself, newSerial, found(nestedInItself)},

	{restartForgetsRecords, newConcurrent, found(durableRecord)},
	{restartForgetsFences, newConcurrent, found(durableFence, cutTransaction)},
	{restartCommits, newConcurrent, found(cutTransaction)},
	{restartKeepsTransactions, newConcurrent, found(cutTransaction)},
}

func found(by ...func(*suite)) []func(*suite) { return by }

func TestEachBugIsFound(t *testing.T) {
	names := caseNames()
	for _, m := range mutants {
		t.Run(string(m.bug), func(t *testing.T) {
			for _, run := range m.foundBy {
				failures := failuresOf(t, m.storage(m.bug), run)
				if len(failures) == 0 {
					t.Errorf("not found by %q", names[pointer(run)])
				}
				t.Logf("%s: %q", names[pointer(run)], failures)
			}
		})
	}
}

func TestEachCaseFindsABug(t *testing.T) {
	finds := make(map[uintptr]bool)
	for _, m := range mutants {
		for _, run := range m.foundBy {
			finds[pointer(run)] = true
		}
	}
	for _, c := range cases() {
		if !finds[pointer(c.run)] {
			t.Errorf("no bug is there for %q to find", c.name)
		}
	}
}

func TestHonestStoresPass(t *testing.T) {
	for name, storage := range map[string]storage{
		"leased":        newLeased,
		"transactional": newConcurrent,
		"one writer":    newSerial,
	} {
		t.Run(name, func(t *testing.T) {
			declared := storage(none)(t)
			for _, c := range cases() {
				if !c.when(declared) {
					continue
				}
				if failures := failuresOf(t, storage(none), c.run); len(failures) > 0 {
					t.Errorf("%s: %q", c.name, failures)
				}
			}
		})
	}
}

func TestEachCaseHasAName(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range cases() {
		if c.name == "" || seen[c.name] {
			t.Errorf("the name %q is empty or comes twice", c.name)
		}
		seen[c.name] = true
	}
	if len(caseNames()) != len(seen) {
		t.Error("a case is listed twice")
	}
}

// caseNames returns the names of the cases by what they run.
func caseNames() map[uintptr]string {
	names := make(map[uintptr]string)
	for _, c := range cases() {
		names[pointer(c.run)] = c.name
	}
	return names
}

func pointer(run func(*suite)) uintptr { return reflect.ValueOf(run).Pointer() }
