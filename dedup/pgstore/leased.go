package pgstore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/retrysafe/retrysafe/dedup"
)

// Leased is a [dedup.Store] whose claims have leases, for handlers whose
// effects are not in this database. It promises [dedup.OneAtATime], holds no
// connection while a handler runs, wakes those who wait, and is safe for
// concurrent use, by many processes on one database.
//
// A claim takes one round trip, and so does every settlement. Each is one
// statement in a READ COMMITTED transaction of its own.
type Leased struct {
	pool     *pgxpool.Pool
	sql      leasedStatements
	listener *listener
	sweeper  *sweeper
	closing  sync.Once
}

var (
	_ dedup.Store  = (*Leased)(nil)
	_ dedup.Waiter = (*Leased)(nil)
)

// NewLeased returns a store in pool's database, where [Migrate] has been run.
// From the first call of Wait on it holds a connection more than the pool's
// limit, to listen for claims that end. Close leaves the pool open and is to be
// called before the pool's.
func NewLeased(pool *pgxpool.Pool, opts ...Option) (*Leased, error) {
	c, err := newConfig(opts)
	if pool == nil {
		err = errors.Join(errors.New("pgstore: NewLeased: the pool is nil"), err)
	}
	if c.isolationSet {
		err = errors.Join(errors.New("pgstore: WithIsolation: a leased store runs no handler in its transactions"), err)
	}
	if c.partitioned() {
		err = errors.Join(errors.New("pgstore: WithPartitions: a leased store has no partitions"), err)
	}
	if err != nil {
		return nil, err
	}
	return &Leased{
		pool:     pool,
		sql:      newLeasedStatements(&c),
		listener: newListener(pool, c.logger),
		sweeper:  startSweeper(&c, newDeleter(pool, &c, leasesTable).sweep),
	}, nil
}

// Promise returns [dedup.OneAtATime].
func (l *Leased) Promise() dedup.Promise { return dedup.OneAtATime }

// Close stops sweeping and listening. Those who wait are woken. It always
// returns nil.
func (l *Leased) Close() error {
	l.closing.Do(func() {
		l.sweeper.close()
		l.listener.close()
	})
	return nil
}

// raced is how often a claim is tried that another changed between being seen
// and being taken. Each time somebody else has made progress.
const raced = 100

// Claim implements [dedup.Store]. It never waits for another's claim to end.
func (l *Leased) Claim(ctx context.Context, req dedup.ClaimRequest) (dedup.Answer, error) {
	if err := validate(req); err != nil {
		return dedup.Answer{}, err
	}
	id := newIdentity(req.Key)
	for range raced {
		var seen leaseSighting
		f := req.Fingerprint
		err := readCommitted(ctx, l.pool, func(b *pgx.Batch) {
			b.Queue(l.sql.claim, id.scope, id.method, id.id, int16(f.Version), f.Sum[:], req.Owner[:],
				req.Lease.Microseconds(), req.Retention.Microseconds(), req.Takeover).QueryRow(seen.scan)
		})
		if err != nil {
			return dedup.Answer{}, explain("claim", err)
		}
		if answer, ok := l.judge(id, req, &seen); ok {
			return answer, nil
		}
	}
	return dedup.Answer{}, fmt.Errorf("pgstore: claim: the operation changed hands %d times meanwhile", raced)
}

// leaseSighting is what a claim did and what it saw before.
type leaseSighting struct {
	takenFence, fence     *int64
	takenAttempt, attempt *int
	state                 *int16
	own, live, expired    *bool
	fingerprintVersion    *int16
	fingerprint           []byte
	record                []byte
	leaseLeft             *int64 // microseconds
}

func (s *leaseSighting) scan(row pgx.Row) error {
	return row.Scan(&s.takenFence, &s.takenAttempt, &s.fence, &s.attempt, &s.state, &s.own, &s.live, &s.expired,
		&s.fingerprintVersion, &s.fingerprint, &s.record, &s.leaseLeft)
}

// judge returns false where what was seen had changed when the claim was to be
// taken, so that it has to be tried again.
func (l *Leased) judge(id identity, req dedup.ClaimRequest, seen *leaseSighting) (dedup.Answer, bool) {
	if seen.takenFence != nil {
		return l.claimed(id, req, *seen.takenFence, *seen.takenAttempt), true
	}
	if seen.state == nil || *seen.expired || *seen.state == leaseReleased {
		return dedup.Answer{}, false
	}
	f := dedup.Fingerprint{Version: dedup.FingerprintVersion(*seen.fingerprintVersion)}
	copy(f.Sum[:], seen.fingerprint)
	if f != req.Fingerprint {
		return dedup.Answer{State: dedup.Reused, Fingerprint: f}, true
	}
	switch {
	case *seen.state == leaseCompleted:
		return dedup.Answer{State: dedup.Completed, Record: seen.record}, true
	case *seen.live && *seen.own:
		return l.claimed(id, req, *seen.fence, *seen.attempt), true
	case *seen.live:
		return dedup.Answer{State: dedup.InProgress, LeaseLeft: microseconds(*seen.leaseLeft)}, true
	case !req.Takeover:
		return dedup.Answer{State: dedup.Unknown}, true
	}
	return dedup.Answer{}, false
}

func (l *Leased) claimed(id identity, req dedup.ClaimRequest, fence int64, attempt int) dedup.Answer {
	c := &lease{store: l, id: id, owner: req.Owner, retention: req.Retention, fence: fence, attempt: attempt}
	return dedup.Answer{State: dedup.Claimed, Claim: c}
}
