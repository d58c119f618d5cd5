// Package retry makes gRPC retries safe: a client interceptor that repeats only
// what may be repeated, inside the caller's deadline, under one idempotency
// key; and a server interceptor that keeps each hop to one owner of retries.
//
//	retries, err := retry.DialOptions(retry.WithPolicy(retry.Policy{MaxAttempts: 4}))
//	...
//	conn, err := grpc.NewClient(target, append(retries, creds)...)
//
// # Which calls
//
// Each method has a [Safety]. A Safe one is retried, a Keyed one is retried
// under an idempotency key that the server honours, and an Unsafe one makes one
// attempt. UNAVAILABLE does not mean that nothing was sent, so nothing is
// retried on a guess: a method of which nothing is said is Unsafe, and its calls
// go out once and unchanged. A class comes from [CallSafety],
// [WithMethodSafety], the method's retrysafe.v1.policy option, or protobuf's
// idempotency_level; the first that says something decides.
//
// Streams are not retried.
//
// # How
//
// A [Policy] comes from [CallPolicy]; from code and [WithServiceConfig], where
// the most specific pattern wins; from the method's retrysafe.v1.policy option;
// or it is the zero Policy. It replaces what is less specific and is not merged
// with it.
//
//	attempt ── fails ── code retried? ── caller there? ── token? ── pushback? ── attempts left? ── fits? ── wait ──┐
//	   ▲           no: its own error      no: CANCELED     └──────────── no: *ExhaustedError ───────────┘         │
//	   └─────────────────────────────────────────────────────────────────────────────────────────────────────────┘
//
// What each step means:
//
//   - Only UNAVAILABLE and DEADLINE_EXCEEDED are retried, unless the policy
//     names other codes. What a server decided is returned as it came, from the
//     first attempt or a later one. An error that comes after the server has sent
//     headers is retried all the same, where grpc-go's own retries stop.
//   - The n-th wait is drawn below min(Cap, Base * Multiplier^n). [JitterFull], the
//     default, draws from 0 to there by intent: it spreads clients furthest. gRFC
//     A6 since 2024 takes 0.8 to 1.2 of the ceiling instead.
//   - A wait is not begun that would end too late for one more attempt, taken to
//     need as long as the quickest one of the call so far. Then the call fails at
//     once, with what its last attempt answered. A caller who cancels during a
//     wait gets CANCELED at once; errors.Is finds the context's error and the last
//     attempt's.
//   - [Policy.PerAttemptTimeout] ends an attempt, and the next follows. The caller's
//     own deadline is never retried. Whose it was is decided by the time that the
//     caller has left.
//   - The server's wait, by grpc-retry-pushback-ms (gRFC A6) or RetryInfo, replaces
//     the computed one and starts the exponent anew, even above the cap; a negative,
//     unparsable or repeated one ends the call. Give calls a deadline or a
//     [Policy.MaxElapsed] if a server's wait shall not hold them for long.
//   - The token [Budget] of each target stops retries while most calls fail.
//   - [WithFailover] goes on at further targets.
//   - Each attempt starts from a reset reply, and grpc.Header, grpc.Trailer and
//     grpc.Peer hold the last attempt's only. grpc.OnFinish runs for each attempt.
//
// # The key
//
// All attempts of a Keyed call carry one key in the metadata idempotency-key:
// the caller's, from idempotency.WithKey, from outgoing metadata or from the
// request's key_field, otherwise a new one. A malformed key, or two, fail with
// INVALID_ARGUMENT before anything is sent. A key that the caller chose is sent
// whatever the method's class. The order of this interceptor and
// idempotency.UnaryClientInterceptor does not matter.
//
// After a failure, [ExhaustedError.IdempotencyKey] is what continues the
// operation later instead of starting another.
//
// # One owner
//
// Layers that each retry multiply: three of three attempts make 27. So one
// layer of a hop owns retries. [DialOptions] turns grpc-go's own off. A retry
// interceptor under another makes one attempt, and so does a call under [Own],
// for code that has a loop of its own. Attempts carry retry-owner and
// grpc-previous-rpc-attempts, a Safe call's from the second on, so that
// [UnaryServerInterceptor] can see who owns the hop and who else retries it.
//
// # When it gives up
//
// The error is an [*ExhaustedError] with the [Reason], and with the last
// attempt's status, details included.
//
// # Telemetry
//
// [WithMeterProvider] records, with the attributes grpc.method ("other" where
// this program does not have the method's descriptor) and grpc.target of gRFC
// A66:
//
//	grpc.client.call.retries        histogram {retry}  retries of a call, by gRFC A96; 0 is not recorded
//	grpc.client.call.retry_delay    histogram s        time between attempts, by gRFC A96; 0 is not recorded
//	retrysafe.client.call.exhausted counter   {call}   by retrysafe.reason and grpc.status
//	retrysafe.client.budget.tokens  gauge     {token}  by grpc.target, at each change
//
// [WithTracerProvider] makes a span for each Safe or Keyed call with an event for
// each attempt, [WithLogger] writes a line for each. None of them ever shows a
// key, a request or a response. An error adds the last attempt's own text, which
// is the server's.
package retry
