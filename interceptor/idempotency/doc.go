// Package idempotency lets a gRPC handler run once for each idempotency key
// and answers every repeat with the original response.
//
// # The server side
//
//	store, err := sqlitestore.Open(ctx, "ledger.db")
//	once, err := idempotency.UnaryServerInterceptor(store, idempotency.WithScope(tenant))
//	srv := grpc.NewServer(grpc.ChainUnaryInterceptor(recovery, auth, once))
//
// A call that carries the metadata [MetadataKey] is the first attempt of an
// operation, or a repeat of one. An operation is named by its scope ([WithScope]),
// its full method and its key. The first attempt claims the operation in the
// store and runs the handler. What the handler answers is recorded: the response,
// or the status with its details, and the headers and trailers that
// [WithReplayHeaders] allows. A repeat gets that, and the handler does not run.
// It finds the header idempotency-replayed: true, and where the replay is an
// error, the same in the trailer. A repeat that comes while the handler still
// runs waits for it.
//
// Which answers are recorded, and what follows on the others, is said at
// [dedup.Classify]. A handler can overrule it:
//
//	if ex, ok := dedup.ExecutionFromContext(ctx); ok {
//		ex.Settle(dedup.NoEffect)
//	}
//
// # Which methods
//
// A method is deduplicated where its service says so in the .proto
//
//	rpc Debit(DebitRequest) returns (DebitResponse) {
//		option (retrysafe.v1.policy) = {key: KEY_REQUIRED retention: {seconds: 172800}};
//	}
//
// or where [WithMethodKey] does, which is stronger, whatever its pattern. All
// other methods pass through untouched, even where a call of them carries a
// key. Of the policy, the server follows key, retention, max_execution,
// on_unknown_outcome and key_field; what it does not say is as the options of
// this package are.
//
// Streaming methods are not deduplicated: a stream has no one request and no
// one response to keep. A policy that asks for a key there is an error.
//
// # What is refused
//
// A call that gets no outcome gets a status of this package instead. It is not
// recorded, and carries a google.rpc.ErrorInfo of the domain "retrysafe" with one
// of these reasons; where repeating the call helps, also a google.rpc.RetryInfo
// and the trailer grpc-retry-pushback-ms:
//
//	FAILED_PRECONDITION IDEMPOTENCY_KEY_REQUIRED the method needs a key and none came
//	INVALID_ARGUMENT    IDEMPOTENCY_KEY_INVALID  the key is malformed, or came twice
//	FAILED_PRECONDITION IDEMPOTENCY_KEY_REUSED   the key came before with another request
//	UNAVAILABLE         IDEMPOTENCY_IN_PROGRESS  the first attempt still runs; ask again
//	UNAVAILABLE         DEDUP_STORE_UNAVAILABLE  the store cannot be reached; ask again
//	RESOURCE_EXHAUSTED  DEDUP_STORE_FULL         the store takes no new operation now
//	RESOURCE_EXHAUSTED  OUTCOME_TOO_LARGE        the outcome was too large to keep
//	ABORTED             OUTCOME_UNKNOWN          it may have executed, and the policy says REJECT
//	INTERNAL            RECORD_UNREADABLE        the recorded outcome cannot be read
//
// # What handlers should know
//
// A handler does not end with its caller: its context lives until the
// operation's max_execution, so that what has begun is finished and recorded.
// Headers and trailers that it sets leave with the answer, once the outcome is
// settled, and so do those that it sends with grpc.SendHeader.
// grpc.SetSendCompressor and grpc.ClientSupportedCompressors do not work in it,
// because they take no stream but grpc's own; an interceptor in front of this
// one can call them. [KeyFromContext] returns the operation's key.
//
// Requests and responses are protobuf messages, and the response's type is
// linked into the program (as generated ones are).
//
// # Order of interceptors
//
// Recovery, authentication and rate limits stand in front of this one: a
// refused call then claims nothing, the scope is of the authenticated caller,
// and a panic settles its claim here before it reaches the recovery. What
// stands behind it runs once for each operation, as the handler does.
//
// # The client side
//
// [UnaryClientInterceptor] gives each call of a keyed method a key, unless the
// caller chose one with [WithKey]. It does not retry. Package retry does both,
// and the two can be installed together in any order.
package idempotency
