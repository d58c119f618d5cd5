package storetest

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
)

// leasedClaim is a claim of a leasedStore.
type leasedClaim struct {
	store   *leasedStore
	key     dedup.Key
	owner   dedup.Owner
	fence   uint64
	attempt int
}

var _ dedup.Claim = (*leasedClaim)(nil)

func (c *leasedClaim) Fence() uint64 { return c.fence }

func (c *leasedClaim) Attempt() int { return c.attempt }

func (c *leasedClaim) Context(ctx context.Context) context.Context {
	switch c.store.bug {
	case contextLosesValues:
		return context.Background()
	case contextLosesEnd:
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// entry returns the claim's entry where the claim is the operation's latest.
// With the bug it is not looked whether it is. The caller holds the lock.
func (c *leasedClaim) entry(now time.Time, unchecked ...bug) (*leasedEntry, error) {
	e := c.store.lookup(c.key, now)
	if e == nil {
		return nil, dedup.ErrLeaseLost
	}
	if (e.fence != c.fence || e.owner != c.owner) && !c.store.bug.is(unchecked...) {
		return nil, dedup.ErrLeaseLost
	}
	return e, nil
}

func (c *leasedClaim) Complete(ctx context.Context, done dedup.Completion) error {
	s := c.store
	if err := ctx.Err(); err != nil && s.bug != completeIgnoresContext {
		return err
	}
	if err := s.refuse(anyRetention, done.Retention); err != nil {
		return err
	}
	if done.Undo && s.bug != pretendsToUndo {
		return errors.New("nothing can be undone here")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(done.Record) > referenceMaxRecord {
		if err := c.tooLarge(&done); err != nil {
			return err
		}
	}
	now := time.Now()
	e, err := c.entry(now, completeIgnoresFence)
	if err != nil {
		return err
	}
	if err := c.mayComplete(e, now); err != nil || e.settled == byComplete && s.bug != completesAgain {
		return err
	}
	if s.bug == looksBeforeItCompletes {
		s.yield()
	}
	c.record(e, done, now)
	return nil
}

// tooLarge deals with a record that is too large.
func (c *leasedClaim) tooLarge(done *dedup.Completion) error {
	switch c.store.bug {
	case keepsAnySize:
		return nil
	case cutsLargeRecords:
		done.Record = done.Record[:referenceMaxRecord]
		return nil
	case tooLargeIsAnyError:
		return errors.New("too large")
	case tooLargeEndsClaim:
		delete(c.store.entries, c.key)
	}
	return dedup.ErrTooLarge
}

func (c *leasedClaim) mayComplete(e *leasedEntry, now time.Time) error {
	s := c.store
	late := !now.Before(e.leaseEnd)
	switch {
	case e.settled == byRelease && s.bug != completesReleased,
		e.settled == byComplete && s.bug == refusesSecondComplete,
		e.settled == notSettled && late && s.bug == refusesLateComplete:
		return dedup.ErrLeaseLost
	}
	return nil
}

func (c *leasedClaim) record(e *leasedEntry, done dedup.Completion, now time.Time) {
	s := c.store
	e.settled = byComplete
	e.record = bytes.Clone(done.Record)
	switch s.bug {
	case aliasesRecords:
		e.record = done.Record
	case cutsRecordsAtNUL:
		e.record, _, _ = bytes.Cut(e.record, []byte{0})
	case trimsRecords:
		e.record = bytes.TrimSpace(e.record)
	case keepsLessThanDeclared:
		e.record = e.record[:min(len(e.record), referenceMaxRecord-1)]
	case dropsUnreadableRecords:
		if len(e.record) > 0 && e.record[0] != 1 {
			e.settled = byRelease
		}
	}
	from := now
	if s.bug == retentionCountsFromClaim {
		from = e.claimed
	}
	expires := from.Add(s.retentionPeriod(done.Retention))
	if s.bug == recordLivesAsItsClaim && e.expires.Before(expires) {
		expires = e.expires
	}
	e.expires = expires
	if s.bug != waitMissesComplete {
		s.notify()
	}
}

func (c *leasedClaim) Renew(ctx context.Context, lease time.Duration) error {
	s := c.store
	if err := ctx.Err(); err != nil && s.bug != renewIgnoresContext {
		return err
	}
	if err := s.refuse(anyRenewal, lease); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	e, err := c.entry(now, renewIgnoresFence)
	if err != nil {
		return err
	}
	late := !now.Before(e.leaseEnd)
	switch {
	case e.settled == byComplete && s.bug == renewReopens:
		e.settled = notSettled
	case e.settled == byComplete && s.bug != renewMovesRecord,
		e.settled == byRelease && s.bug != renewRevives,
		late && s.bug == refusesLateRenew:
		return dedup.ErrLeaseLost
	case e.settled == byRelease:
		e.settled = notSettled
	}
	switch s.bug {
	case renewDoesNothing:
	case renewAdds:
		s.extend(e, e.leaseEnd.Add(lease))
	case renewLeavesRetention:
		e.leaseEnd = now.Add(s.leasePeriod(lease))
	case renewCountsAsAttempt:
		e.attempt++
		s.extend(e, now.Add(s.leasePeriod(lease)))
	default:
		s.extend(e, now.Add(s.leasePeriod(lease)))
	}
	return nil
}

func (c *leasedClaim) Release(ctx context.Context) error {
	s := c.store
	if err := ctx.Err(); err != nil && s.bug != releaseIgnoresContext {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	e, err := c.entry(now, releaseIgnoresFence)
	if err != nil {
		return err
	}
	late := !now.Before(e.leaseEnd)
	switch {
	case e.settled == byComplete && s.bug != releasesCompleted,
		e.settled == byRelease && s.bug == refusesSecondRelease,
		e.settled == notSettled && late && s.bug == refusesLateRelease:
		return dedup.ErrLeaseLost
	case s.bug == releaseDoesNothing:
		return nil
	case s.bug == releaseForgets:
		delete(s.entries, c.key)
		s.fence--
	}
	if e.settled == notSettled || s.bug == releasesCompleted {
		e.settled = byRelease
	}
	if s.bug != waitMissesRelease {
		s.notify()
	}
	return nil
}
