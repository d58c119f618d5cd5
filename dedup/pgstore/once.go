package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/retrysafe/retrysafe/dedup"
)

// onceRetryAfter is the hint to come again where an operation is held longer
// than the caller can wait.
const onceRetryAfter = time.Second

// Batch is an operation that is nothing but SQL, for [Store.Once].
type Batch struct {
	Key         dedup.Key
	Fingerprint dedup.Fingerprint
	// Retention is how long the record is kept. At least a millisecond.
	Retention time.Duration
	// Statements are the operation's effects, without SQL that begins or ends a
	// transaction. Each must fail by itself where it may not take effect, by a
	// constraint for example: nothing looks at how many rows it changed before
	// it is committed. Functions that are set on the queries cannot stop that
	// either. They may run more than once and for effects that are undone; what
	// they were given counts where Once returns no error and no replay.
	Statements *pgx.Batch
	// Record is what a repeat gets, where it is known beforehand.
	Record []byte
	// RecordSQL is a query of one row with one bytea column, which becomes the
	// record, with RecordArgs as its parameters. It sees the statements'
	// effects. Empty: Record is the record.
	RecordSQL  string
	RecordArgs []any
}

// OnceResult is how a [Batch] was answered.
type OnceResult struct {
	Record []byte
	// Replayed says that the operation was executed before.
	Replayed bool
}

// Once executes an operation and records it in one round trip: BEGIN, the
// claim, the statements, the record and COMMIT are sent together. It is made
// for what is rarely repeated. A repeat takes several trips more, because the
// server has to raise an error for the rest of the batch to be skipped, which
// leaves a line in its log too.
//
// The operation must have a key of its own kind: an engine on the same store
// cannot read records that were not made by it.
//
// Once answers [dedup.ErrKeyReused], and a [*dedup.InProgressError] where
// another still executes the operation when ctx ends. An error of the server
// to one of the statements, a [*pgconn.PgError], says that nothing took effect
// and nothing was recorded. After any other error it is not known whether it was;
// repeating the call with its key is safe.
//
// Where ctx carries a transaction of the store, the operation joins it.
func (s *Store) Once(ctx context.Context, b Batch) (OnceResult, error) {
	req := dedup.ClaimRequest{Key: b.Key, Fingerprint: b.Fingerprint, Lease: minDuration, Retention: b.Retention}
	if err := errors.Join(b.check(), validate(req)); err != nil {
		return OnceResult{}, err
	}
	if t, ok := ctx.Value(txKey{}).(*transaction); ok && t.session.belongs(s) {
		return s.onceClaimed(ctx, &b, req)
	}
	if err := s.partitions.ready(ctx); err != nil {
		return OnceResult{}, explain("once", err)
	}
	record, err := s.onceNow(ctx, &b)
	if errors.Is(err, errRefused) {
		return s.onceClaimed(ctx, &b, req)
	}
	return OnceResult{Record: record}, err
}

func (b *Batch) check() error {
	switch {
	case b.Statements == nil || b.Statements.Len() == 0:
		return errors.New("pgstore: once: there are no statements")
	case b.RecordSQL != "" && b.Record != nil:
		return errors.New("pgstore: once: Record and RecordSQL are both set")
	case len(b.Record) > maxRecord:
		return fmt.Errorf("pgstore: once: %d bytes are more than %d: %w", len(b.Record), maxRecord, dedup.ErrTooLarge)
	}
	return nil
}

// errRefused: the batch was undone because the operation is held or recorded,
// or may be.
var errRefused = errors.New("the operation is held or recorded")

// onceNow sends everything at once. At READ COMMITTED a batch whose operation is
// recorded ends before its statements run. At higher levels the record's
// primary key may decide only after they have, and that they failed may mean
// that they had been executed before.
func (s *Store) onceNow(ctx context.Context, b *Batch) (record []byte, err error) {
	id := newIdentity(b.Key)
	sess, err := s.acquire(ctx)
	if err != nil {
		return nil, explain("once", err)
	}
	var all pgx.Batch
	all.Queue("begin isolation level " + string(s.config.isolation))
	if b.RecordSQL == "" {
		record = notNull(b.Record)
		if s.config.partitioned() { // no key finds out what is recorded
			s.queueRefusal(&all, id)
		}
		s.queueRecord(&all, b, id)
		b.queueStatements(&all)
	} else {
		s.queueRefusal(&all, id)
		b.queueStatements(&all)
		s.queueRecord(&all, b, id).QueryRow(func(row pgx.Row) error { return row.Scan(&record) })
	}
	all.Queue("commit")
	if err := sess.conn.SendBatch(ctx, &all).Close(); err != nil {
		_ = sess.rollback() // where it fails the connection is closed
		return nil, s.explainOnce(err)
	}
	sess.finish()
	s.recent.add(id.lock())
	return record, nil
}

// queueRefusal ends the batch where the operation is held or recorded. The look
// for the record is a statement of its own, to see what the lock's last holder
// committed.
func (s *Store) queueRefusal(to *pgx.Batch, id identity) {
	o := outcomes(s.config)
	to.Queue("SELECT "+o.refuse()+" WHERE NOT "+o.tryLock("$1::bigint"), id.lock())
	if !s.config.places() {
		to.Queue("SELECT "+o.refuse()+" WHERE "+o.recorded("$1::bytea", "$2::bytea", "$3::bytea"),
			id.id, id.method, id.scope)
	}
}

// queueStatements copies the queries, because one that was sent belongs to its
// connection.
func (b *Batch) queueStatements(to *pgx.Batch) {
	for _, q := range b.Statements.QueuedQueries {
		to.Queue(q.SQL, q.Arguments...).Fn = q.Fn
	}
}

// queueRecord queues the INSERT of the batch's outcome. It ends the batch where
// the operation is held or recorded, and where RecordSQL has no record to give,
// so that nothing takes effect unrecorded.
func (s *Store) queueRecord(to *pgx.Batch, b *Batch, id identity) *pgx.QueuedQuery {
	o := outcomes(s.config)
	p := slices.Clone(params(b.RecordArgs)) // RecordSQL counts from $1
	var record, returned string
	if b.RecordSQL == "" {
		record, returned = p.add(notNull(b.Record), "bytea"), "NULL::bytea"
	} else {
		record, returned = fmt.Sprintf("coalesce((%s\n), %s)", b.RecordSQL, o.noRecord()), "record"
	}
	sql := fmt.Sprintf(`WITH made AS (%s
 SELECT %s, %s, %s, %s, %s, %s, %s, clock_timestamp(), clock_timestamp() + %s * interval '1 microsecond' WHERE %s
 ON CONFLICT DO NOTHING RETURNING %s AS record)
 SELECT CASE WHEN EXISTS (SELECT FROM made) THEN (SELECT record FROM made) ELSE %s END`,
		o.insert(), p.add(id.id, "bytea"), p.add(id.method, "bytea"), p.add(id.scope, "bytea"),
		p.add(int16(b.Fingerprint.Version), "smallint"), p.add(b.Fingerprint.Sum[:], "bytea"), o.nextFence(),
		record, p.add(b.Retention.Microseconds(), "bigint"), o.tryLock(p.add(id.lock(), "bigint")), returned, o.refuse())
	return to.Queue(sql, p...)
}

// params are a statement's parameters.
type params []any

// add returns how the statement names the parameter.
func (p *params) add(value any, sqlType string) string {
	*p = append(*p, value)
	return "$" + strconv.Itoa(len(*p)) + "::" + sqlType
}

func (s *Store) explainOnce(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return fmt.Errorf("pgstore: once: %w", err)
	}
	code := codeOf(err)
	failed := code != codeSerializationFailure && code != codeDeadlock
	switch {
	case code == "":
		// Not found by errors.As, for it does not say that nothing took effect.
		return fmt.Errorf("pgstore: once: the session ended: %v", err)
	case isRecorded(err):
		return errRefused
	case isOutOfPartitions(err):
		s.partitions.distrust()
		return explain("once", err)
	case failed && s.config.places():
		return errRefused
	case code == codeDiskFull, code == codeOutOfMemory:
		return explain("once", err)
	}
	return fmt.Errorf("pgstore: once: %w", err)
}

// onceClaimed executes the operation in the trips that it takes to claim it,
// if need be to wait for it, and to complete it.
func (s *Store) onceClaimed(ctx context.Context, b *Batch, req dedup.ClaimRequest) (OnceResult, error) {
	answer, err := s.Claim(ctx, req)
	if err != nil {
		return OnceResult{}, err
	}
	switch answer.State {
	case dedup.Claimed:
		return onceUnder(ctx, answer.Claim, b)
	case dedup.Completed:
		return OnceResult{Record: answer.Record, Replayed: true}, nil
	case dedup.Reused:
		return OnceResult{}, dedup.ErrKeyReused
	}
	return OnceResult{}, &dedup.InProgressError{RetryAfter: onceRetryAfter}
}

func onceUnder(ctx context.Context, claim dedup.Claim, b *Batch) (OnceResult, error) {
	record, err := b.execute(claim.Context(ctx))
	if err == nil {
		err = claim.Complete(ctx, dedup.Completion{Record: record, Retention: b.Retention})
		return OnceResult{Record: record}, err
	}
	if err := claim.Release(ctx); err != nil {
		return OnceResult{}, err
	}
	return OnceResult{}, fmt.Errorf("pgstore: once: %w", err)
}

// execute runs the statements in ctx's transaction and returns the record.
func (b *Batch) execute(ctx context.Context) ([]byte, error) {
	tx, err := Tx(ctx)
	if err != nil {
		return nil, err
	}
	var statements pgx.Batch
	b.queueStatements(&statements)
	if err := tx.SendBatch(ctx, &statements).Close(); err != nil {
		return nil, err
	}
	if b.RecordSQL == "" {
		return notNull(b.Record), nil
	}
	var record []byte
	if err := tx.QueryRow(ctx, b.RecordSQL, b.RecordArgs...).Scan(&record); err != nil {
		return nil, fmt.Errorf("RecordSQL: %w", err)
	}
	if record == nil {
		return nil, errors.New("RecordSQL returned NULL")
	}
	return record, nil
}
