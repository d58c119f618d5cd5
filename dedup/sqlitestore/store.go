package sqlitestore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/retrysafe/retrysafe/dedup"
)

var errUnfinished = errors.New("sqlitestore: not there yet")

// Store is a [dedup.Store] in an SQLite database.
type Store struct{ db *sql.DB }

var _ dedup.Store = (*Store)(nil)

// Open opens the database file at path and creates and migrates what the store
// needs in it. Close closes the database.
func Open(ctx context.Context, path string, opts ...Option) (*Store, error) {
	return nil, errUnfinished
}

// New makes a store in a database that the caller has opened, and migrated
// with [Migrate]. Close leaves db open.
func New(ctx context.Context, db *sql.DB, opts ...Option) (*Store, error) {
	return nil, errUnfinished
}

// DB returns the database, for reads and for writes outside of handlers.
func (s *Store) DB() *sql.DB { return s.db }

// Close stops the store. A second Close does nothing and returns nil.
func (s *Store) Close() error { return nil }

// Claim implements [dedup.Store].
func (s *Store) Claim(ctx context.Context, req dedup.ClaimRequest) (dedup.Answer, error) {
	return dedup.Answer{}, errUnfinished
}

// Promise returns [dedup.ExactlyOnce].
func (s *Store) Promise() dedup.Promise { return dedup.ExactlyOnce }
