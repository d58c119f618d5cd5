package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
)

// referenceMaxRecord is what the reference stores declare as MaxRecord.
const referenceMaxRecord = 64 * kibibyte

// bug is the one mistake of a reference store. The empty bug is none.
type bug string

func (b bug) is(others ...bug) bool {
	for _, other := range others {
		if b == other {
			return true
		}
	}
	return false
}

// leasedStorage is the plainest storage that keeps the leased promise: a map,
// a mutex, and a channel that is closed at every change.
type leasedStorage struct {
	bug bug

	mu      sync.Mutex
	entries map[dedup.Key]*leasedEntry
	fence   uint64
	changed chan struct{}
}

type leasedEntry struct {
	fingerprint dedup.Fingerprint
	owner       dedup.Owner
	fence       uint64
	attempt     int
	settled     settled
	claimed     time.Time
	lease       time.Duration // as asked for
	leaseEnd    time.Time
	retention   time.Duration
	expires     time.Time
	record      []byte
}

type settled uint8

const (
	notSettled settled = iota
	byComplete
	byRelease
)

// leasedStore is one of the stores over a leasedStorage.
type leasedStore struct{ *leasedStorage }

var (
	_ dedup.Store  = (*leasedStore)(nil)
	_ dedup.Waiter = (*leasedStore)(nil)
)

// newLeased returns a storage with the bug.
func newLeased(b bug) func(testing.TB) Storage {
	return func(testing.TB) Storage {
		storage := &leasedStorage{bug: b, entries: make(map[dedup.Key]*leasedEntry), changed: make(chan struct{})}
		return Storage{
			First:     &leasedStore{storage},
			Second:    &leasedStore{storage},
			MaxRecord: referenceMaxRecord,
			Restart: func(testing.TB) (dedup.Store, dedup.Store) {
				storage.restart()
				return &leasedStore{storage}, &leasedStore{storage}
			},
		}
	}
}

func (s *leasedStorage) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, e := range s.entries {
		if e.settled == byComplete && s.bug == restartForgetsRecords ||
			e.settled == notSettled && s.bug == restartForgetsClaims {
			delete(s.entries, key)
		}
	}
	if s.bug == restartForgetsFences {
		s.fence = 0
	}
}

func (s *leasedStore) Promise() dedup.Promise { return dedup.OneAtATime }

// identity is the key that the storage uses for an operation.
func (s *leasedStorage) identity(key dedup.Key) dedup.Key {
	switch s.bug {
	case gluesKeys:
		return dedup.Key{ID: key.Scope + key.Method + key.ID}
	case gluesKeysWithNUL:
		return dedup.Key{ID: key.Scope + "\x00" + key.Method + "\x00" + key.ID}
	case foldsKeys:
		key.ID = strings.ToLower(key.ID)
	case trimsKeys:
		key.ID = strings.TrimSpace(key.ID)
	case cutsKeys:
		key.ID = key.ID[:min(len(key.ID), 254)]
	case ignoresScope:
		key.Scope = ""
	case ignoresMethod:
		key.Method = ""
	case repairsUTF8:
		key.ID = strings.ToValidUTF8(key.ID, "\ufffd")
	}
	return key
}

// period is how long the storage takes d to be.
func (s *leasedStorage) period(d time.Duration) time.Duration {
	switch s.bug {
	case roundsUp:
		return d.Truncate(time.Second) + time.Second
	case roundsDown:
		return d.Truncate(time.Second)
	case overflows:
		if d > 100*365*24*time.Hour {
			return -time.Second
		}
	}
	return d
}

func (s *leasedStorage) leasePeriod(d time.Duration) time.Duration {
	switch s.bug {
	case leaseEndsEarly:
		return d / 2
	case leaseEndsLate:
		return d + time.Second
	case leaseIsIgnored:
		return -time.Second
	}
	return s.period(d)
}

func (s *leasedStorage) retentionPeriod(d time.Duration) time.Duration {
	switch s.bug {
	case forgetsEarly:
		return d / 2
	case forgetsLate:
		return d + time.Second
	case neverForgets:
		return centuries
	case forgetsAtOnce:
		return 0
	}
	return s.period(d)
}

func (s *leasedStorage) refuse(what bug, d time.Duration) error {
	if d < time.Millisecond && s.bug != what {
		return fmt.Errorf("a duration of %v is below a millisecond", d)
	}
	return nil
}

// notify wakes all who wait. The caller holds the lock.
func (s *leasedStorage) notify() {
	if s.bug == waitNeverWakes {
		return
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// yield lets others in between a look and what follows from it.
func (s *leasedStorage) yield() {
	s.mu.Unlock()
	time.Sleep(time.Millisecond)
	s.mu.Lock()
}

func (s *leasedStore) Claim(ctx context.Context, req dedup.ClaimRequest) (dedup.Answer, error) {
	if err := ctx.Err(); err != nil && s.bug != claimIgnoresContext {
		return dedup.Answer{}, err
	}
	if err := errors.Join(s.refuse(anyLease, req.Lease), s.refuse(anyLease, req.Retention)); err != nil {
		return dedup.Answer{}, err
	}
	if s.bug == looksBeforeItCompletes {
		time.Sleep(time.Millisecond / 2) // so that a completion has looked
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key, now := s.identity(req.Key), time.Now()
	e := s.lookup(key, now)
	if s.bug == oneClaimAtATime && s.anyOpen(key, now) {
		return dedup.Answer{State: dedup.InProgress}, nil
	}
	if e != nil {
		answer, done := s.judge(key, e, req, now)
		if done {
			return answer, nil
		}
	}
	if s.bug == looksBeforeItClaims {
		s.yield()
	}
	claim := s.enter(key, req, now)
	if s.bug == claimEndsWithContext {
		context.AfterFunc(ctx, func() { _ = claim.Release(context.Background()) })
	}
	return dedup.Answer{State: dedup.Claimed, Claim: claim}, nil
}

// lookup returns what is remembered of an operation.
func (s *leasedStorage) lookup(key dedup.Key, now time.Time) *leasedEntry {
	e := s.entries[key]
	if e != nil && !now.Before(e.expires) {
		if s.bug != keepsAttempts {
			delete(s.entries, key)
			return nil
		}
		e.settled = byRelease
	}
	return e
}

func (s *leasedStorage) anyOpen(but dedup.Key, now time.Time) bool {
	for key, e := range s.entries {
		if key != but && e.settled == notSettled && now.Before(e.leaseEnd) {
			return true
		}
	}
	return false
}

// judge answers from what is remembered, where that is an answer.
func (s *leasedStore) judge(key dedup.Key, e *leasedEntry, req dedup.ClaimRequest, now time.Time) (dedup.Answer, bool) {
	live := now.Before(e.leaseEnd)
	mine := e.owner == req.Owner && s.bug != refusesItsOwner || s.bug == recognisesAnyone
	switch {
	case e.settled == byRelease:
		return dedup.Answer{}, false
	case s.reused(e, req, live):
		return s.answerReused(key, e, req), true
	case e.settled == byComplete && (len(e.record) > 0 || s.bug != emptyIsNone):
		return dedup.Answer{State: dedup.Completed, Record: e.record}, true
	case live && mine:
		if s.bug == repeatIsAnotherClaim {
			return dedup.Answer{}, false
		}
		return dedup.Answer{State: dedup.Claimed, Claim: s.claimOf(key, e)}, true
	case live || s.bug == leaseNeverEnds:
		return dedup.Answer{State: dedup.InProgress, LeaseLeft: s.leaseLeft(e, now)}, true
	case req.Takeover || s.bug == alwaysTakesOver:
		return dedup.Answer{}, false
	}
	if s.bug == unknownOnce {
		e.settled = byRelease
	}
	return dedup.Answer{State: dedup.Unknown}, true
}

func (s *leasedStorage) leaseLeft(e *leasedEntry, now time.Time) time.Duration {
	if s.bug == leaseLeftIsTheLease {
		return e.lease
	}
	return max(0, e.leaseEnd.Sub(now))
}

func (s *leasedStorage) reused(e *leasedEntry, req dedup.ClaimRequest, live bool) bool {
	was, is := e.fingerprint, req.Fingerprint
	switch s.bug {
	case ignoresFingerprint:
		return false
	case ignoresFingerprintVersion:
		was.Version, is.Version = 0, 0
	case comparesFingerprintsShort:
		return !bytes.Equal(was.Sum[:8], is.Sum[:8])
	case inProgressBeforeReused:
		return was != is && !(live && e.settled == notSettled)
	case completedBeforeReused:
		return was != is && e.settled != byComplete
	case unknownBeforeReused:
		return was != is && (live || e.settled == byComplete)
	case uncomparedIsReused:
		return was != is || is == dedup.Fingerprint{}
	}
	return was != is
}

func (s *leasedStore) answerReused(key dedup.Key, e *leasedEntry, req dedup.ClaimRequest) dedup.Answer {
	answer := dedup.Answer{State: dedup.Reused, Fingerprint: e.fingerprint}
	switch s.bug {
	case reusedWithWrongFingerprint:
		answer.Fingerprint = req.Fingerprint
	case reusedTakesFingerprint:
		e.fingerprint = req.Fingerprint
	case reusedReleases:
		delete(s.entries, key)
	}
	return answer
}

// enter makes the request's claim the operation's latest.
func (s *leasedStore) enter(key dedup.Key, req dedup.ClaimRequest, now time.Time) *leasedClaim {
	e := s.entries[key]
	if e == nil || s.bug == forgetsAttempts {
		e = &leasedEntry{}
		s.entries[key] = e
	}
	if s.bug != fenceStays || s.fence == 0 {
		s.fence++
	}
	e.fence = s.fence
	if s.bug == fenceIsZero {
		e.fence--
	}
	e.attempt++
	if s.bug == countsFromZero {
		e.attempt--
	}
	e.fingerprint, e.owner, e.settled, e.record = req.Fingerprint, req.Owner, notSettled, nil
	e.claimed, e.lease, e.retention = now, req.Lease, req.Retention
	s.extend(e, now.Add(s.leasePeriod(req.Lease)))
	return s.claimOf(key, e)
}

func (s *leasedStorage) extend(e *leasedEntry, leaseEnd time.Time) {
	e.leaseEnd = leaseEnd
	e.expires = leaseEnd.Add(s.period(e.retention))
	if s.bug == unsettledForgetsEarly {
		e.expires = leaseEnd
	}
	if s.bug == unsettledNeverForgets {
		e.expires = leaseEnd.Add(centuries)
	}
}

func (s *leasedStore) claimOf(key dedup.Key, e *leasedEntry) *leasedClaim {
	return &leasedClaim{store: s, key: key, owner: e.owner, fence: e.fence, attempt: e.attempt}
}

// Wait implements dedup.Waiter.
func (s *leasedStore) Wait(ctx context.Context, key dedup.Key) error {
	for {
		s.mu.Lock()
		now := time.Now()
		e := s.lookup(s.identity(key), now)
		held := e != nil && e.settled == notSettled && now.Before(e.leaseEnd)
		var left time.Duration
		if held {
			left = e.leaseEnd.Sub(now)
		}
		changed := s.changed
		s.mu.Unlock()
		if s.bug == waitsForNobody {
			held, left = true, long
		}
		if !held {
			return nil
		}
		if s.bug.is(waitSleepsThroughLease, waitNeverWakes) {
			left = long
		}
		if s.bug == waitIgnoresContext {
			ctx = context.Background()
		}
		if s.bug == waitGivesUp {
			return errors.New("no patience")
		}
		timer := time.NewTimer(left)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		timer.Stop()
	}
}
