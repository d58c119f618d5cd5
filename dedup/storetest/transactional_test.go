package storetest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
)

// txStorage is the plainest storage that keeps the transactional promise: what
// claims write is staged and committed under one mutex.
type txStorage struct {
	bug       bug
	oneWriter bool

	mu         sync.Mutex
	rows       map[dedup.Key]txRow
	written    map[string]bool
	holders    map[dedup.Key]*tx // of open claims and of what they have completed
	writer     *tx               // of a storage with one writer
	fence      uint64
	generation int           // raised by a restart
	changed    chan struct{} // closed when a claim ends
}

// txRow is a committed operation.
type txRow struct {
	fingerprint dedup.Fingerprint
	record      []byte
	expires     time.Time
}

// txStore is one of the stores over a txStorage.
type txStore struct{ *txStorage }

var _ dedup.Store = (*txStore)(nil)

// newConcurrent returns a storage with the bug that has many writers.
func newConcurrent(b bug) func(testing.TB) Storage { return newTransactional(b, false) }

// newSerial returns a storage with the bug that has one writer.
func newSerial(b bug) func(testing.TB) Storage { return newTransactional(b, true) }

func newTransactional(b bug, oneWriter bool) func(testing.TB) Storage {
	return func(testing.TB) Storage {
		storage := &txStorage{
			bug:       b,
			oneWriter: oneWriter,
			rows:      make(map[dedup.Key]txRow),
			written:   make(map[string]bool),
			holders:   make(map[dedup.Key]*tx),
			changed:   make(chan struct{}),
		}
		return Storage{
			First:            &txStore{storage},
			Second:           &txStore{storage},
			MaxRecord:        referenceMaxRecord,
			ConcurrentClaims: !oneWriter && b != hidesConcurrency,
			Effects:          &Effects{Write: storage.write, Written: storage.committed, Fail: storage.fail},
			Restart: func(testing.TB) (dedup.Store, dedup.Store) {
				storage.restart()
				return &txStore{storage}, &txStore{storage}
			},
		}
	}
}

func (s *txStorage) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, holder := range s.holders {
		if s.bug == restartCommits {
			maps.Copy(s.written, holder.writes)
		}
	}
	if s.bug == restartForgetsRecords {
		clear(s.rows)
	}
	if s.bug == restartForgetsFences {
		s.fence = 0
	}
	if s.bug != restartKeepsTransactions {
		s.generation++
		clear(s.holders)
		s.writer = nil
	}
	s.notify()
}

// notify wakes all who wait. The caller holds the lock.
func (s *txStorage) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *txStore) Promise() dedup.Promise { return dedup.ExactlyOnce }

type txKey struct{}

// current returns the open transaction of the storage that ctx carries.
func (s *txStorage) current(ctx context.Context) (*tx, bool) {
	c, ok := ctx.Value(txKey{}).(*tx)
	return c, ok && c.store.txStorage == s && c.open()
}

func (s *txStore) Claim(ctx context.Context, req dedup.ClaimRequest) (dedup.Answer, error) {
	if err := ctx.Err(); err != nil {
		return dedup.Answer{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	outer, _ := s.current(ctx)
	waited := false
	for {
		if answer, ok := s.recorded(outer, req); ok && !(waited && s.bug == doesNotLookAfterWaiting) {
			return answer, nil
		}
		holder := s.holderOf(req)
		if holder == nil && (s.writer == nil || outer != nil) {
			return dedup.Answer{State: dedup.Claimed, Claim: s.begin(ctx, outer, req)}, nil
		}
		if holder != nil && outer.within(holder) && s.bug != nestedWaitsForItself {
			if s.bug == nestedClaimsItself {
				return dedup.Answer{State: dedup.Claimed, Claim: s.begin(ctx, outer, req)}, nil
			}
			return dedup.Answer{State: dedup.InProgress}, nil
		}
		if !s.await(ctx) {
			return s.waitedInVain(ctx, holder)
		}
		waited = true
		if s.bug == completedByAnyEnd {
			return dedup.Answer{State: dedup.Completed}, nil
		}
	}
}

// recorded answers from what is committed, or staged where the request can see
// it.
func (s *txStorage) recorded(outer *tx, req dedup.ClaimRequest) (dedup.Answer, bool) {
	row, ok := s.rows[req.Key]
	for c := outer; c != nil && s.bug != nestedSeesCommittedOnly; c = c.outer {
		if staged, found := c.rows[req.Key]; found {
			row, ok = staged, true
			break
		}
	}
	switch {
	case !ok || !time.Now().Before(row.expires):
		return dedup.Answer{}, false
	case row.fingerprint != req.Fingerprint && s.bug != ignoresFingerprint:
		return dedup.Answer{State: dedup.Reused, Fingerprint: row.fingerprint}, true
	}
	return dedup.Answer{State: dedup.Completed, Record: row.record}, true
}

// holderOf returns who has the request's operation in hand.
func (s *txStorage) holderOf(req dedup.ClaimRequest) *tx {
	holder := s.holders[req.Key]
	switch {
	case holder == nil, s.bug == ignoresHolders,
		s.bug == openIgnoresFingerprint && holder.fingerprint != req.Fingerprint,
		s.bug == repeatIsAnotherClaim && holder.owner == req.Owner:
		return nil
	}
	return holder
}

// await waits until a claim has ended. It returns false where ctx ends first.
// The caller holds the lock.
func (s *txStorage) await(ctx context.Context) bool {
	changed := s.changed
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-changed:
		return true
	case <-ctx.Done():
		return false
	}
}

// waitedInVain is the answer to one whose context has ended. With one writer a
// store does not see what the other process has in hand.
func (s *txStore) waitedInVain(ctx context.Context, holder *tx) (dedup.Answer, error) {
	known := holder != nil && (!s.oneWriter || holder.store == s)
	if known && s.bug != waitEndsInError || s.bug == writerIsInProgress {
		return dedup.Answer{State: dedup.InProgress}, nil
	}
	return dedup.Answer{}, ctx.Err()
}

func (s *txStore) begin(ctx context.Context, outer *tx, req dedup.ClaimRequest) *tx {
	s.fence++
	if s.bug == fenceStays {
		s.fence = 1
	}
	c := &tx{
		store:       s,
		outer:       outer,
		fingerprint: req.Fingerprint,
		owner:       req.Owner,
		fence:       s.fence,
		generation:  s.generation,
		begun:       time.Now(),
		key:         req.Key,
		keys:        []dedup.Key{req.Key},
		writes:      make(map[string]bool),
		rows:        make(map[dedup.Key]txRow),
	}
	s.holders[req.Key] = c
	if s.oneWriter && outer == nil {
		s.writer = c
	}
	release := func() { _ = c.Release(context.Background()) }
	if s.bug == claimEndsWithContext {
		context.AfterFunc(ctx, release)
	}
	if s.bug == leaseEndsTransaction {
		time.AfterFunc(req.Lease, release)
	}
	return c
}

func (s *txStorage) write(ctx context.Context, marker string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.current(ctx)
	if !ok {
		return s.writeOutside(ctx, marker)
	}
	if s.bug == writesAtOnce {
		s.written[marker] = true
	}
	c.writes[marker] = true
	if s.bug == undoesOthersToo {
		s.mu.Unlock()
		time.Sleep(time.Millisecond)
		s.mu.Lock()
	}
	return nil
}

// writeOutside deals with a write that belongs to no open claim.
func (s *txStorage) writeOutside(ctx context.Context, marker string) error {
	settled := ctx.Value(txKey{}) != nil
	switch {
	case settled && s.bug == writesUnderSettled, !settled && s.bug == writesWithoutClaim:
		s.written[marker] = true
		return nil
	case settled && s.bug == writesUnderNextClaim:
		for _, c := range s.holders {
			c.writes[marker] = true
			return nil
		}
	}
	return errors.New("no open claim")
}

func (s *txStorage) committed(context.Context) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.written)), nil
}

// fail is a statement that breaks a constraint. With many writers it spoils the
// transaction, as in PostgreSQL; with one it does not, as in SQLite.
func (s *txStorage) fail(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.current(ctx)
	if !ok {
		return errors.New("no open claim")
	}
	c.spoilt = !s.oneWriter
	return errors.New("broken constraint")
}
