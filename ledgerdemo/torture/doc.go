// Package torture holds the tests that break the whole system on purpose: real
// servers as processes of their own, the ledger and a store behind them, real
// clients with retries in front. It has no code but its tests.
//
// # Crash points
//
// A server passes named steps between receiving a request and sending its
// response: before and after the claim, after each statement of the handler,
// before and after the outcome is recorded, and so on. For each store and each
// step, one by one, a server kills itself there with SIGKILL, another takes its
// place, and the client's retry arrives. What must then stand in the ledger,
// and what the client must be told, is a table. For stores that promise exactly
// once it is the same on every line: one debit, and its own answer. For the
// others it is what they document for a crash at that step, under both policies
// for an unknown outcome.
//
// # Random faults
//
// Clients repeat each other's keys on several replicas while servers are
// killed and frozen, at named steps and at any time, connections are cut and
// slowed on both sides of the servers, answers are lost on the way, database
// backends are terminated, and databases are restarted without warning. What
// clients saw is checked with porcupine against a model of a ledger that
// executes each key once. The checkers are themselves tested: against histories
// with one flaw each, and against servers with one bug each.
//
// A run is made of a seed, which it prints:
//
//	make torture DURATION=10m
//	make torture DURATION=10m SEED=7
//
// The same seed draws the same operations and the same faults in the same
// order. What meets what is up to the machine.
//
// # Interceptors of others
//
// The suite's interceptors stand among those of go-grpc-middleware and beside
// otelgrpc, outermost first:
//
//	client                                   server
//	logging    a line for each call          otelgrpc   a stats handler: a span for each attempt
//	timeout    bounds the whole call         logging    a line for each attempt
//	retry                                    recovery
//	logging    a line for each attempt       auth       the scope is of who it lets in
//	timeout    bounds each attempt           ratelimit  what it refuses has claimed nothing
//	otelgrpc   a span for each attempt       retry      one owner of retries
//	                                         once       idempotency
//	                                         logging    a line for each execution
//
// The tests hold each of them to its place.
package torture
