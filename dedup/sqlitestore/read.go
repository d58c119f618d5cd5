package sqlitestore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/retrysafe/retrysafe/dedup"
)

// reader answers from what is committed, on the pool's connections.
type reader struct {
	entry   *sql.Stmt
	expired *sql.Stmt
}

func openReader(ctx context.Context, db *sql.DB) (*reader, error) {
	entry, err := db.PrepareContext(ctx, selectEntry)
	if err != nil {
		return nil, err
	}
	expired, err := db.PrepareContext(ctx, `SELECT EXISTS (SELECT 1 FROM retrysafe_outcome WHERE expires_at <= ?)`)
	if err != nil {
		return nil, errors.Join(err, entry.Close())
	}
	return &reader{entry: entry, expired: expired}, nil
}

func (r *reader) close() error {
	return errors.Join(r.entry.Close(), r.expired.Close())
}

// lookup finds the entry of key, expired or not.
func (r *reader) lookup(ctx context.Context, key dedup.Key) (e entry, found bool, err error) {
	var sum []byte
	err = r.entry.QueryRowContext(ctx, key.Scope, key.Method, key.ID).
		Scan(&e.fingerprint.Version, &sum, &e.fence, &e.expires, &e.record)
	if errors.Is(err, sql.ErrNoRows) {
		return e, false, nil
	}
	copy(e.fingerprint.Sum[:], sum)
	return e, err == nil, err
}

func (r *reader) anyExpired(ctx context.Context, now int64) (any bool, err error) {
	err = r.expired.QueryRowContext(ctx, now).Scan(&any)
	return any, err
}
