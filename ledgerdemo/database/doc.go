// Package database reads where a ledger, or the record of what was done, is
// kept:
//
//	postgres://user@host:5432/name   PostgreSQL
//	redis://host:6379/0              Redis, for outcomes alone
//	sqlite:ledger.db, or ledger.db   an SQLite file
//
// A PostgreSQL URL may leave the password to PGPASSWORD or a password file, as
// every program of PostgreSQL does.
package database
