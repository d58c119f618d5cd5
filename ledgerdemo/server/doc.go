// Package server runs the ledger as a gRPC server, on SQLite, on PostgreSQL,
// or with its outcomes in Redis.
//
// What a call passes, outermost first:
//
//	logging    go-grpc-middleware: each call of the ledger, without what it says
//	recovery   go-grpc-middleware: a panic becomes INTERNAL
//	faults     only where the configuration asks for them, on Debit
//	owner      retry: one owner of retries on this hop
//	once       idempotency: the handler runs once for each key
//	faults     once more, next to the handler
//	ledger     the handler, in the transaction that also records its outcome;
//	           behind Redis, in one of its own
//
// Health and reflection are served beside it.
package server
