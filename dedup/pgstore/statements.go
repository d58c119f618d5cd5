package pgstore

import (
	"fmt"

	"github.com/jackc/pgx/v5/pgtype"
)

// savepoint is where the writes of a claim's handler begin.
const savepoint = "retrysafe"

// statements are the SQL of a transactional store.
type statements struct {
	begin, beginReadCommitted, commit statement
	save, undo                        statement

	// The lock's number is their parameter.
	lock  statement // returns now() and a fence where it was free, otherwise NULL
	await statement // returns once nobody holds it
	limit statement // limits how long await waits: milliseconds as text

	// The identity is their parameters.
	look   statement // returns the outcome where there is one
	forget statement // deletes an outcome that has expired

	record statement // with the identity, fingerprint, fence, record, retention, now()

	// For levels at which a transaction does not see what was committed after
	// its first statement.
	place statement // with the identity, fingerprint, lock; returns now(), fence and place
	fill  statement // with the place, fence, record, retention, now()

	all []statement // to be prepared on a connection
}

func newStatements(c *config) statements {
	o := outcomes(*c)
	const identity = "id = $1 AND method = $2 AND scope = $3"
	bytea3 := []uint32{pgtype.ByteaOID, pgtype.ByteaOID, pgtype.ByteaOID}
	const int8OID = pgtype.Int8OID

	// now() is when the transaction began: another value says that the handler
	// has ended it and begun another, in which no record may stand for its
	// writes.
	record := o.insert() + ` VALUES (CASE WHEN now() = $9 THEN $1 ELSE ` + o.refuse() + ` END, $2, $3, $4, $5, $6, $7,
 clock_timestamp(), clock_timestamp() + $8 * interval '1 microsecond')`
	if c.places() {
		record = o.unlessRecorded(record)
	}
	s := statements{
		begin:              newStatement("BEGIN ISOLATION LEVEL " + string(c.isolation)),
		beginReadCommitted: newStatement("BEGIN ISOLATION LEVEL READ COMMITTED"),
		commit:             newStatement("COMMIT"),
		save:               newStatement("SAVEPOINT " + savepoint),
		undo:               newStatement("ROLLBACK TO SAVEPOINT " + savepoint),

		// CASE draws the fence after the lock, so that it is above that of the
		// lock's last holder.
		lock:  newStatement(fmt.Sprintf("SELECT now(), CASE WHEN %s THEN %s END", o.tryLock("$1"), o.nextFence()), int8OID),
		await: newStatement("SELECT pg_advisory_xact_lock_shared("+o.lockNumber("$1")+")", int8OID),
		limit: newStatement(
			"SELECT set_config('lock_timeout', $1, true), set_config('statement_timeout', '0', true)", pgtype.TextOID),

		look: newStatement(fmt.Sprintf(`SELECT fingerprint_version, fingerprint, record, expires_at <= statement_timestamp()
 FROM %s WHERE %s%s`, o.table(), identity, o.live()), bytea3...),
		forget: newStatement(fmt.Sprintf("DELETE FROM %s WHERE %s AND expires_at <= statement_timestamp()",
			o.table(), identity), bytea3...),

		record: newStatement(record, pgtype.ByteaOID, pgtype.ByteaOID, pgtype.ByteaOID,
			pgtype.Int2OID, pgtype.ByteaOID, int8OID, pgtype.ByteaOID, int8OID, pgtype.TimestamptzOID),

		place: newStatement(o.insert()+fmt.Sprintf(` SELECT $1, $2, $3, $4, $5, %s, '', clock_timestamp(), clock_timestamp()
 WHERE %s ON CONFLICT DO NOTHING RETURNING now(), fence, ctid`, o.nextFence(), o.tryLock("$6")),
			pgtype.ByteaOID, pgtype.ByteaOID, pgtype.ByteaOID, pgtype.Int2OID, pgtype.ByteaOID, int8OID),
		// By its place, because looking for it in an index could make the
		// transaction fail. Nobody else sees the row, so it stays where it is.
		fill: newStatement(fmt.Sprintf(`WITH made AS (UPDATE %s SET record = $3, completed_at = clock_timestamp(),
 expires_at = clock_timestamp() + $4 * interval '1 microsecond' WHERE ctid = $1 AND fence = $2 AND now() = $5 RETURNING 1)
 SELECT %s WHERE NOT EXISTS (SELECT FROM made)`, o.table(), o.refuse()),
			pgtype.TIDOID, int8OID, pgtype.ByteaOID, int8OID, pgtype.TimestamptzOID),
	}
	s.all = []statement{s.begin, s.beginReadCommitted, s.commit, s.save, s.undo,
		s.lock, s.await, s.limit, s.look, s.forget, s.record, s.place, s.fill}
	return s
}

// outcomes makes SQL about the table of outcomes.
type outcomes config

func (o outcomes) name(object string) string { return (*config)(&o).name(object) }

func (o outcomes) table() string {
	if (*config)(&o).partitioned() {
		return o.name(partitionedTable)
	}
	return o.name(outcomesTable)
}

// live keeps what has expired out of a look where it is not in the way of what
// is recorded after it. Were the clock set back, the latest would count.
func (o outcomes) live() string {
	if (*config)(&o).partitioned() {
		return " AND expires_at > statement_timestamp() ORDER BY fence DESC LIMIT 1"
	}
	return ""
}

func (o outcomes) nextFence() string {
	return "nextval(" + literal(o.name("retrysafe_fences")) + "::regclass)"
}

// refuse fails with codeRefused.
func (o outcomes) refuse() string { return o.name("retrysafe_refuse") + "()" }

// noRecord fails with codeNoRecord.
func (o outcomes) noRecord() string { return o.name("retrysafe_no_record") + "()" }

// lockNumber is the number of an operation's lock in this storage: the table's
// OID keeps two of one database apart.
func (o outcomes) lockNumber(param string) string {
	return param + " # " + literal(o.table()) + "::regclass::oid::bigint"
}

func (o outcomes) tryLock(param string) string {
	return "pg_try_advisory_xact_lock(" + o.lockNumber(param) + ")"
}

// recorded says whether an operation has an outcome.
func (o outcomes) recorded(id, method, scope string) string {
	return fmt.Sprintf("EXISTS (SELECT FROM %s WHERE id = %s AND method = %s AND scope = %s%s)",
		o.table(), id, method, scope, o.live())
}

// insert is the head of the INSERT of an outcome.
func (o outcomes) insert() string {
	return "INSERT INTO " + o.table() +
		" (id, method, scope, fingerprint_version, fingerprint, fence, record, completed_at, expires_at)"
}

// unlessRecorded makes an INSERT fail with codeRefused where the outcome is
// there already. The server's own error would have it log the key.
func (o outcomes) unlessRecorded(insert string) string {
	return fmt.Sprintf("WITH made AS (%s ON CONFLICT DO NOTHING RETURNING 1) SELECT %s WHERE NOT EXISTS (SELECT FROM made)",
		insert, o.refuse())
}
