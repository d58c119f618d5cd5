// Package deadletter keeps calls that exhausted their retries, so that they can
// be sent again later as further attempts of the same operation.
//
//	letters, err := deadletter.UnaryClientInterceptor(queue)
//	retries, err := retry.DialOptions(retry.WithPolicy(p))
//	opts := append([]grpc.DialOption{creds, grpc.WithChainUnaryInterceptor(letters)}, retries...)
//	conn, err := grpc.NewClient(target, opts...)
//
// The interceptor stands before the retries and sees what they gave up; behind
// them it would see single attempts, and keep nothing. An exhausted call becomes
// a [Letter] in a [Queue]; the caller gets its error all the same. [Replay]
// sends a letter with the key that all attempts before it carried, so that an
// operation which executed after all is answered with its outcome rather than
// executed again.
//
// # What a letter holds
//
// A letter holds the request and the idempotency key. Who can read the queue
// can read both. [WithSeal] gives a function the letter before it is kept, to
// redact or encrypt it; [WithOpen] undoes that for a replay.
//
// It does not hold who made the call: no credentials, and no other metadata.
//
// # Who replays
//
// A server keeps the keys of its callers apart (idempotency.WithScope). So a
// letter must be replayed as the caller that made the call, with the credentials
// that ctx or conn brings: for another caller the same key is a new operation,
// and the server executes it although it may have done so before. A program that
// calls on behalf of several keeps a queue for each.
//
// # What gets no letter
//
// A call that may not be retried (NOT_RETRY_SAFE), since sending it again
// could execute it twice, and one whose retries belong to a layer above
// (OWNED_UPSTREAM), since that layer writes the letter. One that its caller
// cancelled, or made with retry.Disable. One that failed in a way that retries do
// not help. Streams are not kept.
//
// # The window
//
// A server remembers an outcome for its retention. A letter that is replayed
// after that could execute a second time, so Replay refuses it with
// [ErrTooOld]: see [WithWindow]. The window counts from the beginning of the call
// that became the letter. Where earlier calls had the same key, as a caller's own
// may, the server counts from the first of them: narrow the window by that.
package deadletter
