package pgstore

import (
	"bytes"
	"context"
	"errors"

	"github.com/retrysafe/retrysafe/dedup"
)

// Claim implements [dedup.Store]. It waits while another executes the
// operation, and answers InProgress shortly before ctx's deadline, or when ctx
// is cancelled.
//
// Where ctx carries a transaction of the same pool and schema, the claim joins
// it. It then answers InProgress at once where another transaction, or an
// execution further out in the same one, holds the operation.
func (s *Store) Claim(ctx context.Context, req dedup.ClaimRequest) (dedup.Answer, error) {
	if err := validate(req); err != nil {
		return dedup.Answer{}, err
	}
	id := newIdentity(req.Key)
	if t, ok := ctx.Value(txKey{}).(*transaction); ok && t.session.belongs(s) {
		return t.join(ctx, id, req)
	}
	if err := s.partitions.ready(ctx); err != nil {
		return dedup.Answer{}, explain("claim", err)
	}
	for tries := 0; ; tries++ {
		answer, err := s.try(ctx, id, req, tries > 0)
		if err == nil && answer.State != dedup.InProgress {
			return answer, nil
		}
		// Once it is known to be held, an end of ctx no longer hides that.
		if err != nil && (tries == 0 || ctx.Err() == nil) {
			return dedup.Answer{}, explain("claim", err)
		}
		if err != nil || !s.waiting.await(ctx, s, req.Key, id, tries) {
			return dedup.Answer{State: dedup.InProgress}, nil
		}
	}
}

// errExpired: there is an outcome that counts as gone and is still in the way.
var errExpired = errors.New("the outcome has expired")

// try asks for the claim once, without waiting for another's.
func (s *Store) try(ctx context.Context, id identity, req dedup.ClaimRequest, waited bool) (dedup.Answer, error) {
	for {
		answer, err := s.tryFresh(ctx, id, req, waited)
		if !errors.Is(err, errExpired) {
			return answer, err
		}
		if err := s.forget(ctx, id); err != nil {
			return dedup.Answer{}, err
		}
	}
}

// tryFresh looks before it opens a transaction where the operation is likely to
// be recorded, which saves the transaction.
func (s *Store) tryFresh(ctx context.Context, id identity, req dedup.ClaimRequest, waited bool) (dedup.Answer, error) {
	lock := id.lock()
	if waited || s.recent.has(lock) {
		seen, err := s.peek(ctx, id)
		if err != nil || seen.outcome {
			return s.judge(lock, req, seen, err)
		}
	}
	seen, sess, err := s.open(ctx, id, lock, req.Fingerprint)
	switch {
	case s.config.places() && codeOf(err) == codeSerializationFailure:
		// Another's row is there, and was committed too late to be seen.
	case err != nil:
		return dedup.Answer{}, err
	case seen.locked && !seen.outcome:
		return newClaim(sess, id, req, seen), nil
	default:
		_ = sess.rollback() // nothing was written
	}
	if s.config.places() {
		seen, err = s.peek(ctx, id)
	}
	return s.judge(lock, req, seen, err)
}

// open begins the transaction, tries the lock, looks for an outcome and makes
// the savepoint. Where there is an error there is no session.
func (s *Store) open(ctx context.Context, id identity, lock int64, f dedup.Fingerprint) (seen sighting, sess *session, err error) {
	sess, err = s.acquire(ctx)
	if err != nil {
		return seen, nil, err
	}
	add, read := s.addLook(id, lock, &seen)
	if s.config.places() {
		add, read = s.addPlace(id, lock, f, &seen)
	}
	err = sess.trip(ctx, func(t *trip) {
		t.add(&s.sql.begin)
		add(t)
		t.add(&s.sql.save)
	}, read)
	if err != nil {
		_ = sess.rollback() // where it fails the connection is closed
		return seen, nil, err
	}
	return seen, sess, nil
}

// addLook is for READ COMMITTED. The look is a statement after that of the
// lock, so that it sees what the lock's last holder committed.
func (s *Store) addLook(id identity, lock int64, seen *sighting) (add func(*trip), read func(int, [][]byte)) {
	return func(t *trip) {
			t.add(&s.sql.lock, int8Param(lock))
			t.add(&s.sql.look, id.id, id.method, id.scope)
		}, func(statement int, values [][]byte) {
			if statement == 1 {
				seen.readLock(values)
			} else {
				seen.readOutcome(values)
			}
		}
}

// addPlace is for the levels above. A transaction there sees nothing that was
// committed after its first statement, the one that takes the lock; and at
// SERIALIZABLE what it reads can make it fail. The primary key knows better
// than a look: the claim inserts its row, which gets its record later.
func (s *Store) addPlace(id identity, lock int64, f dedup.Fingerprint, seen *sighting) (add func(*trip), read func(int, [][]byte)) {
	return func(t *trip) {
			t.add(&s.sql.place, id.id, id.method, id.scope, int2Param(uint8(f.Version)), f.Sum[:], int8Param(lock))
		}, func(_ int, values [][]byte) {
			seen.readLock(values)
			seen.place = bytes.Clone(values[2])
		}
}

// peek looks for an outcome, with no transaction left open.
func (s *Store) peek(ctx context.Context, id identity) (seen sighting, err error) {
	err = s.once(ctx, func(t *trip) {
		t.add(&s.sql.beginReadCommitted)
		t.add(&s.sql.look, id.id, id.method, id.scope)
		t.add(&s.sql.commit)
	}, func(_ int, values [][]byte) { seen.readOutcome(values) })
	return seen, err
}

// forget deletes an outcome that has expired and was not swept yet.
func (s *Store) forget(ctx context.Context, id identity) error {
	return s.once(ctx, func(t *trip) {
		t.add(&s.sql.beginReadCommitted)
		t.add(&s.sql.forget, id.id, id.method, id.scope)
		t.add(&s.sql.commit)
	}, noRow)
}

// sighting is what a claim saw of its operation.
type sighting struct {
	locked bool   // by the one who looked
	began  []byte // when the transaction began, as now() has it
	fence  int64
	place  []byte // where its row is, where it has one

	outcome     bool // there is one
	expired     bool
	fingerprint dedup.Fingerprint
	record      []byte
}

// readLock takes the row of the lock statement.
func (s *sighting) readLock(values [][]byte) {
	s.began = bytes.Clone(values[0])
	if s.locked = values[1] != nil; s.locked {
		s.fence = int8Value(values[1])
	}
}

// readOutcome takes the row of the look statement.
func (s *sighting) readOutcome(values [][]byte) {
	s.outcome = true
	s.fingerprint = fingerprintOf(values[0], values[1])
	s.record = bytes.Clone(values[2])
	s.expired = boolValue(values[3])
}

// judge answers where the caller may not execute the operation now.
func (s *Store) judge(lock int64, req dedup.ClaimRequest, seen sighting, err error) (dedup.Answer, error) {
	switch {
	case err != nil:
		return dedup.Answer{}, err
	case !seen.outcome:
		return dedup.Answer{State: dedup.InProgress}, nil
	case seen.expired:
		return dedup.Answer{}, errExpired
	}
	s.recent.add(lock)
	if seen.fingerprint != req.Fingerprint {
		return dedup.Answer{State: dedup.Reused, Fingerprint: seen.fingerprint}, nil
	}
	return dedup.Answer{State: dedup.Completed, Record: seen.record}, nil
}
