package database

import "fmt"

// Kind is a kind of database.
type Kind uint8

// The kinds of databases.
const (
	SQLite Kind = iota + 1
	PostgreSQL
	Redis
)

const minKind, maxKind = SQLite, Redis

// String returns the name by which people know it.
func (k Kind) String() string {
	switch k {
	case SQLite:
		return "SQLite"
	case PostgreSQL:
		return "PostgreSQL"
	case Redis:
		return "Redis"
	}
	return fmt.Sprintf("kind_%d", uint8(k))
}
