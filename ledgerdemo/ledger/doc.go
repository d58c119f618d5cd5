// Package ledger is a small double-entry ledger behind gRPC.
//
// Each movement of money is one transaction of two entries, on two accounts,
// that sum to zero. A debit or credit has its counter entry on the settlement
// account of the currency, "settlement:EUR", so that the entries of a currency
// always sum to zero and an account's balance is always the sum of its
// entries. Entries are written once and never changed.
//
// The service knows nothing of idempotency keys. Its handlers do their SQL on
// a [Storage]; behind the idempotency interceptor that is the transaction in
// which the outcome is recorded as well:
//
//	store, err := sqlitestore.Open(ctx, "ledger.db")
//	storage, err := ledger.NewSQLite(ctx, store.DB())
//	once, err := idempotency.UnaryServerInterceptor(store)
//	srv := grpc.NewServer(grpc.ChainUnaryInterceptor(once))
//	ledgerv1.RegisterLedgerServiceServer(srv, ledger.NewService(storage))
//
// [SQLite] and [Postgres] join the transaction of their own kind of store.
// Behind any other, and behind none, they make one of their own; then the
// effect and the outcome can part, and the answer to a COMMIT can be lost. The
// service says so to the engine, which does not release such a claim.
//
// What the service refuses has the code and the details that ledger.proto
// says, and changes nothing.
package ledger
