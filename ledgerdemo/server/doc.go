// Package server runs the ledger as a gRPC server on an SQLite file.
//
// What a call passes, outermost first:
//
//	logging    go-grpc-middleware: each call of the ledger, without what it says
//	recovery   go-grpc-middleware: a panic becomes INTERNAL
//	faults     only where the configuration asks for them, on Debit
//	owner      retry: one owner of retries on this hop
//	once       idempotency: the handler runs once for each key
//	ledger     the handler, in the transaction that also records its outcome
//
// Health and reflection are served beside it.
package server
