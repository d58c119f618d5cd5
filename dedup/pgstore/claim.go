package pgstore

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
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
	for tries := 0; ; tries++ {
		answer, err := s.try(ctx, id, req)
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
func (s *Store) try(ctx context.Context, id identity, req dedup.ClaimRequest) (dedup.Answer, error) {
	for {
		answer, err := s.tryFresh(ctx, id, req)
		if !errors.Is(err, errExpired) {
			return answer, err
		}
		if err := s.forget(ctx, id); err != nil {
			return dedup.Answer{}, err
		}
	}
}

func (s *Store) tryFresh(ctx context.Context, id identity, req dedup.ClaimRequest) (dedup.Answer, error) {
	var seen sighting
	if s.config.isolation != pgx.ReadCommitted {
		if err := s.peek(ctx, id, &seen); err != nil {
			return dedup.Answer{}, err
		}
		if seen.recorded() {
			return seen.answer(req)
		}
		return s.openUnread(ctx, id, req)
	}
	sess, err := s.begin(ctx, func(b *pgx.Batch) {
		b.Queue(s.sql.lock, id.lock())
		b.Queue(s.sql.look, id.scope, id.method, id.id)
	}, seen.readLocked)
	if err != nil {
		return dedup.Answer{}, err
	}
	if !seen.recorded() && seen.locked {
		return newClaim(sess, id, req, *seen.fence), nil
	}
	_ = sess.rollback() // nothing was written
	return seen.answer(req)
}

// openUnread is for isolation levels at which what a transaction reads can
// make it fail: it takes the lock only.
func (s *Store) openUnread(ctx context.Context, id identity, req dedup.ClaimRequest) (dedup.Answer, error) {
	var fence *int64
	sess, err := s.begin(ctx, func(b *pgx.Batch) {
		b.Queue(s.sql.lockFence, id.lock())
	}, func(results pgx.BatchResults) error {
		return results.QueryRow().Scan(&fence)
	})
	if err != nil {
		return dedup.Answer{}, err
	}
	if fence == nil {
		_ = sess.rollback() // nothing was written
		return dedup.Answer{State: dedup.InProgress}, nil
	}
	return newClaim(sess, id, req, *fence), nil
}

// readCommitted runs one statement in a READ COMMITTED transaction of its own,
// in one trip, whatever the database's default level is.
func readCommitted(ctx context.Context, pool sender, add func(*pgx.Batch)) error {
	var b pgx.Batch
	b.Queue("begin isolation level read committed")
	add(&b)
	b.Queue("commit")
	return pool.SendBatch(ctx, &b).Close()
}

// sender is what a pool and a connection have in common here.
type sender interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

func (s *Store) peek(ctx context.Context, id identity, seen *sighting) error {
	return readCommitted(ctx, s.pool, func(b *pgx.Batch) {
		b.Queue(s.sql.peek, id.scope, id.method, id.id).QueryRow(seen.scan)
	})
}

// forget deletes an outcome that has expired and was not swept yet.
func (s *Store) forget(ctx context.Context, id identity) error {
	return readCommitted(ctx, s.pool, func(b *pgx.Batch) {
		b.Queue(s.sql.forget, id.scope, id.method, id.id)
	})
}

// sighting is what a claim saw of its operation.
type sighting struct {
	locked             bool
	fence              *int64 // nil where there is an outcome
	fingerprintVersion *int16
	fingerprint        []byte
	record             []byte
	expired            *bool
}

// readLocked reads the results of the lock and look statements.
func (s *sighting) readLocked(results pgx.BatchResults) error {
	if err := results.QueryRow().Scan(&s.locked); err != nil {
		return err
	}
	return s.scan(results.QueryRow())
}

func (s *sighting) scan(row pgx.Row) error {
	return row.Scan(&s.fence, &s.fingerprintVersion, &s.fingerprint, &s.record, &s.expired)
}

func (s *sighting) recorded() bool { return s.fence == nil }

// answer judges an operation that the caller may not execute now.
func (s *sighting) answer(req dedup.ClaimRequest) (dedup.Answer, error) {
	if !s.recorded() {
		return dedup.Answer{State: dedup.InProgress}, nil
	}
	if *s.expired {
		return dedup.Answer{}, errExpired
	}
	if f := fingerprintOf(s.fingerprintVersion, s.fingerprint); f != req.Fingerprint {
		return dedup.Answer{State: dedup.Reused, Fingerprint: f}, nil
	}
	return dedup.Answer{State: dedup.Completed, Record: s.record}, nil
}
