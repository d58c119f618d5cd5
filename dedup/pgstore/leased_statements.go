package pgstore

import "fmt"

// The states of a row of retrysafe_leases.
const (
	leaseClaimed   = 1
	leaseCompleted = 2
	leaseReleased  = 3
)

// channel is where a claim's end is told, by the digest of its operation.
const channel = "retrysafe_settled"

// leasedStatements are the SQL of a leased store. $1 to $3 are the identity.
//
// They read clock_timestamp() where they compare and where they write, and not
// the statement's or transaction's time: a statement may have waited for
// another that held the row.
type leasedStatements struct {
	claim    string // $4 to $9 fingerprint, owner, lease, retention, takeover
	complete string // $4 owner, $5 fence, $6 digest, $7 record, $8 retention
	release  string // $4 owner, $5 fence, $6 digest
	renew    string // $4 owner, $5 fence, $6 lease, $7 retention
	watch    string
}

func newLeasedStatements(c *config) leasedStatements {
	table := c.name(leasesTable)
	nextFence := "nextval(" + literal(c.name("retrysafe_fences")) + "::regclass)"
	const key = "scope = $1::bytea AND method = $2::bytea AND id = $3::bytea"
	const mine = key + " AND owner = $4::bytea AND fence = $5::bigint"
	return leasedStatements{
		claim: fmt.Sprintf(claimLease, table, table, nextFence, nextFence, micros("$7"), micros("$8"),
			takeable("seen"), takeable("l")),
		complete: fmt.Sprintf(settleLease, table,
			"state = 2, record = $7::bytea, completed_at = clock_timestamp(), expires_at = clock_timestamp() + "+micros("$8"),
			mine, channel, table, mine, leaseCompleted),
		// A released claim has nothing to be remembered for but its number.
		release: fmt.Sprintf(settleLease, table,
			"state = 3, expires_at = clock_timestamp() + interval '1 minute'",
			mine, channel, table, mine, leaseReleased),
		renew: fmt.Sprintf(`UPDATE %s SET lease_until = clock_timestamp() + %s, expires_at = clock_timestamp() + %s + %s
 WHERE %s AND state = 1`, table, micros("$6"), micros("$6"), micros("$7"), mine),
		watch: fmt.Sprintf(watchLease, table, key, table, key),
	}
}

func micros(param string) string { return param + "::bigint * interval '1 microsecond'" }

// takeable says whether a row does not stand in the way of a claim.
func takeable(row string) string {
	return fmt.Sprintf(`(%[1]s.expires_at <= clock_timestamp() OR %[1]s.state = 3
  OR %[1]s.state = 1 AND %[1]s.lease_until <= clock_timestamp() AND $9::boolean
   AND %[1]s.fingerprint_version = $4::smallint AND %[1]s.fingerprint = $5::bytea)`, row)
}

// claimLease looks first, so that an operation that cannot be claimed costs no
// write, and looks again at the row that it has locked, because another may
// have been quicker. The fence of a row that was there is drawn under its lock,
// so that it is above all before it.
const claimLease = `WITH seen AS MATERIALIZED (
  SELECT * FROM %[1]s WHERE scope = $1::bytea AND method = $2::bytea AND id = $3::bytea
), taken AS (
  INSERT INTO %[2]s AS l (scope, method, id, fingerprint_version, fingerprint, owner, fence, attempt, state, waited,
    lease_until, expires_at)
  SELECT $1::bytea, $2::bytea, $3::bytea, $4::smallint, $5::bytea, $6::bytea, %[3]s, 1, 1, false,
    clock_timestamp() + %[5]s, clock_timestamp() + %[5]s + %[6]s
  WHERE NOT EXISTS (SELECT FROM seen WHERE NOT %[7]s)
  ON CONFLICT (scope, method, id) DO UPDATE SET
    fingerprint_version = excluded.fingerprint_version, fingerprint = excluded.fingerprint,
    owner = excluded.owner, fence = %[4]s,
    attempt = CASE WHEN l.expires_at <= clock_timestamp() THEN 1 ELSE l.attempt + 1 END,
    state = 1, waited = false, record = NULL, completed_at = NULL,
    lease_until = clock_timestamp() + %[5]s, expires_at = clock_timestamp() + %[5]s + %[6]s
  WHERE %[8]s
  RETURNING fence, attempt
)
SELECT taken.fence, taken.attempt, seen.fence, seen.attempt, seen.state, seen.owner = $6::bytea,
  seen.lease_until > clock_timestamp(), seen.expires_at <= clock_timestamp(),
  seen.fingerprint_version, seen.fingerprint, seen.record,
  (extract(epoch FROM seen.lease_until - clock_timestamp()) * 1000000)::bigint
FROM (SELECT) AS one LEFT JOIN taken ON true LEFT JOIN seen ON true`

// settleLease returns whether the claim is settled as asked, now or before. It
// notifies only where somebody waits: transactions that notify commit one by
// one.
const settleLease = `WITH settled AS (
  UPDATE %[1]s SET %[2]s WHERE %[3]s AND state = 1 RETURNING waited
), told AS MATERIALIZED (
  SELECT pg_notify('%[4]s', $6::text) FROM settled WHERE waited
)
SELECT EXISTS (SELECT FROM settled) OR EXISTS (SELECT FROM %[5]s WHERE %[6]s AND state = %[7]d), (SELECT count(*) FROM told)`

// watchLease returns what is left of the live claim's lease in microseconds,
// and whether its end will be told. No row: there is no live claim.
const watchLease = `WITH seen AS MATERIALIZED (
  SELECT fence, waited, lease_until FROM %[1]s WHERE %[2]s AND state = 1 AND lease_until > clock_timestamp()
), marked AS (
  UPDATE %[3]s AS l SET waited = true FROM seen
  WHERE l.scope = $1::bytea AND l.method = $2::bytea AND l.id = $3::bytea AND l.fence = seen.fence AND l.state = 1
    AND NOT seen.waited
  RETURNING 1
)
SELECT (extract(epoch FROM lease_until - clock_timestamp()) * 1000000)::bigint, waited OR EXISTS (SELECT FROM marked)
FROM seen`
