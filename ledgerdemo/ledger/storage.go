package ledger

import "context"

// Storage runs the ledger's SQL. It is safe for concurrent use.
type Storage interface {
	// Write runs fn in a transaction that it commits where fn returns nil and
	// undoes otherwise, or in the transaction that ctx already carries, which
	// is then its owner's to commit or undo. It returns fn's error as it is.
	Write(ctx context.Context, fn func(Conn) error) error

	// Read runs fn on one consistent state of the ledger.
	Read(ctx context.Context, fn func(Conn) error) error

	// Transient reports whether an error of the storage goes away when the
	// same is tried again, such as a lock that was not had in time.
	Transient(err error) bool
}

// Conn is SQL on one connection. Placeholders are $1, $2 and so on, first used
// in that order, which SQLite and PostgreSQL both take. It is not safe for
// concurrent use.
type Conn interface {
	// Exec runs a statement and returns how many rows it changed.
	Exec(ctx context.Context, query string, args ...any) (int64, error)
	// One scans the only row into dest, or returns false where there is none.
	One(ctx context.Context, query string, args []any, dest ...any) (bool, error)
	// Each calls fn with each row's scan function, to its first error.
	Each(ctx context.Context, query string, args []any, fn func(scan func(dest ...any) error) error) error
}
