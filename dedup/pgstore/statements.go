package pgstore

import "fmt"

// statements are the SQL of a transactional store. $1 is the number of the
// operation's lock, or $1 to $3 are its identity.
type statements struct {
	// With the identity: a fence where there is no outcome, otherwise NULL and
	// the outcome. peek is look where the fence is not needed yet.
	look, peek string
	lock       string // with the lock: whether it was free
	lockFence  string // with the lock: a fence where it was free, otherwise NULL
	await      string // with the lock: returns once nobody holds it
	forget     string // with the identity: deletes an outcome that has expired
	record     string // with the identity, fingerprint, fence, record, retention

	// For batches. They fail with codeRefused where the lock is held, or where
	// there is an outcome.
	refuseHeld, refuseRecorded string
	// Parts of a batch's record statement.
	insert, nextFence, noRecord string
}

func newStatements(c *config) statements {
	outcomes, fences := c.name(outcomesTable), c.name("retrysafe_fences")
	refuse := c.name("retrysafe_refuse") + "()"
	nextFence := "nextval(" + literal(fences) + "::regclass)"
	// The table's OID keeps two stores of one database apart.
	number := "$1::bigint # " + literal(outcomes) + "::regclass::oid::bigint"
	tryLock := "pg_try_advisory_xact_lock(" + number + ")"
	const identity = "scope = $1::bytea AND method = $2::bytea AND id = $3::bytea"
	const look = `SELECT CASE WHEN o.id IS NULL THEN %s END,
 o.fingerprint_version, o.fingerprint, o.record, o.expires_at <= statement_timestamp()
 FROM (SELECT) AS one LEFT JOIN %s AS o ON ` + identity
	insert := "INSERT INTO " + outcomes +
		" (scope, method, id, fingerprint_version, fingerprint, fence, record, completed_at, expires_at)"
	return statements{
		look:      fmt.Sprintf(look, nextFence, outcomes),
		peek:      fmt.Sprintf(look, "0::bigint", outcomes),
		lock:      "SELECT " + tryLock,
		lockFence: fmt.Sprintf("SELECT CASE WHEN %s THEN %s END", tryLock, nextFence),
		await:     "SELECT pg_advisory_xact_lock_shared(" + number + ")",
		forget:    fmt.Sprintf("DELETE FROM %s WHERE %s AND expires_at <= statement_timestamp()", outcomes, identity),
		record: insert + ` VALUES ($1, $2, $3, $4, $5, $6, $7,
 clock_timestamp(), clock_timestamp() + $8::bigint * interval '1 microsecond')`,

		refuseHeld: fmt.Sprintf("SELECT CASE WHEN %s THEN 0 ELSE %s END", tryLock, refuse),
		refuseRecorded: fmt.Sprintf("SELECT CASE WHEN EXISTS (SELECT FROM %s WHERE %s) THEN %s ELSE 0 END",
			outcomes, identity, refuse),
		insert:    insert,
		nextFence: nextFence,
		noRecord:  c.name("retrysafe_no_record"),
	}
}
