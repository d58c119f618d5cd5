package gates

import (
	"context"
	"fmt"
	"time"
)

// filling is how many records are written in one transaction.
const filling = 200_000

// The keys are such as the client makes, and as many for each millisecond as a
// busy service has: 48 bits of time, which rise, and then chance.
const (
	postgresFillSQL = `INSERT INTO retrysafe_outcomes
	(id, method, scope, fingerprint_version, fingerprint, fence, record, completed_at, expires_at)
SELECT convert_to(format('%s-%s-7%s-%s-%s', substr(t, 1, 8), substr(t, 9, 4), substr(r, 1, 3), substr(r, 4, 4), substr(r, 8, 12)), 'UTF8'),
	$3, $4, 2, $5, i, $6, now(), now() + $7 * interval '1 microsecond'
FROM (SELECT i, lpad(to_hex(1700000000000 + i / 4), 12, '0') AS t, md5(random()::text) AS r FROM generate_series($1::bigint, $2::bigint - 1) AS i) AS k`

	sqliteFillSQL = `WITH RECURSIVE n (i) AS (SELECT ? UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?)
INSERT INTO retrysafe_outcome (method, scope, fingerprint_version, fingerprint, record, recorded_at, expires_at, fence, id)
SELECT ?, ?, 2, ?, ?, ?, ?, i,
	substr(t, 1, 8) || '-' || substr(t, 9, 4) || '-7' || substr(r, 1, 3) || '-' || substr(r, 4, 4) || '-' || substr(r, 8, 12)
FROM (SELECT i, printf('%012x', 1700000000000 + i / 4) AS t, lower(hex(randomblob(10))) AS r FROM n)`
)

// fill records n operations, whose retention ends so long from now.
func (b *bank) fill(ctx context.Context, n int, retention time.Duration) error {
	key := newKey()
	for from := 0; from < n; from += filling {
		_, err := b.pool.Exec(ctx, postgresFillSQL, from, min(n, from+filling), []byte(key.Method), []byte(key.Scope),
			debitFingerprint.Sum[:], record, retention.Microseconds())
		if err != nil {
			return fmt.Errorf("fill: %w", err)
		}
	}
	// As autovacuum would sooner or later, and at a time of its own.
	for _, sql := range []string{"VACUUM (ANALYZE) retrysafe_outcomes", "CHECKPOINT"} {
		if _, err := b.pool.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

func (b *bank) expired(ctx context.Context) (n int, err error) {
	err = b.pool.QueryRow(ctx, "SELECT count(*) FROM retrysafe_outcomes WHERE expires_at <= now()").Scan(&n)
	return n, err
}

// fill records n operations, whose retention ends so long from now.
func (f *file) fill(ctx context.Context, n int, retention time.Duration) (err error) {
	db, err := f.direct()
	if err != nil {
		return err
	}
	defer closing(db.Close, &err)
	key, now := newKey(), time.Now()
	for from := 0; from < n; from += filling {
		_, err := db.ExecContext(ctx, sqliteFillSQL, from, min(n, from+filling), key.Method, key.Scope,
			debitFingerprint.Sum[:], record, now.UnixMicro(), now.Add(retention).UnixMicro())
		if err != nil {
			return fmt.Errorf("fill: %w", err)
		}
	}
	_, err = db.ExecContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`)
	return err
}

func (f *file) expired(ctx context.Context) (n int, err error) {
	db, err := f.direct()
	if err != nil {
		return 0, err
	}
	defer closing(db.Close, &err)
	err = db.QueryRowContext(ctx, `SELECT count(*) FROM retrysafe_outcome WHERE expires_at <= ?`, time.Now().UnixMicro()).Scan(&n)
	return n, err
}
