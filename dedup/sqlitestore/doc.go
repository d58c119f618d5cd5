// Package sqlitestore is a [dedup.Store] in an SQLite database that promises
// exactly once: the handler's writes and the recorded outcome commit in one
// transaction.
package sqlitestore
