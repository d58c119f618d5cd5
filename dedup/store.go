package dedup

import (
	"context"
	"fmt"
	"time"
)

// Store remembers operations: who may execute one now, and what an executed
// one answered. A Store is safe for concurrent use, by many processes where
// its storage is shared. Package storetest checks an implementation.
//
// A Store decides by its own storage's clock. It sees a record as bytes, and
// neither reads nor changes them. Asked with a context that has ended already, a
// store and its claims change nothing and return the context's error; but the
// Release of a transaction may go through.
type Store interface {
	// Claim asks for the right to execute an operation. It returns an error
	// only where it could not find out; every state of the operation is an
	// [Answer].
	//
	// ctx bounds the asking, and is cancelled once Claim has returned; the claim
	// does not end with it.
	//
	// A claim asked for again with the same Owner, because the reply was lost,
	// answers Claimed with the same fence for as long as the claim lives.
	//
	// A store whose claims are transactions may wait in Claim, until ctx ends,
	// for another transaction that holds the operation. It then answers
	// InProgress, not ctx's error, where it knows that the operation is held.
	// Where ctx already carries a transaction of this storage, because a handler
	// asks, the new claim joins it under a savepoint: it lasts if that commits.
	Claim(ctx context.Context, req ClaimRequest) (Answer, error)

	// Promise says what the store promises.
	Promise() Promise
}

// Waiter is a [Store] that can wake those who wait for a claim to end. Without
// it they poll.
type Waiter interface {
	// Wait returns nil once nobody holds a live claim on key, at once where
	// nobody does. It may return nil early. It returns ctx's error where ctx
	// ends first.
	Wait(ctx context.Context, key Key) error
}

// ClaimRequest is what [Store.Claim] is asked.
type ClaimRequest struct {
	Key         Key
	Fingerprint Fingerprint
	// Owner names the one who asks, uniquely.
	Owner Owner
	// Lease is how long the claim lives without being renewed or settled. A
	// store that cannot honour it to the millisecond refuses it.
	Lease time.Duration
	// Retention is how long the store remembers, from the end of its lease, a
	// claim that was never settled.
	Retention time.Duration
	// Takeover allows the claim where an earlier one was neither completed nor
	// released and its lease has ended, so that it is not known whether it
	// executed. Without it such an operation answers Unknown.
	Takeover bool
}

// Owner is the token of one who asks for a claim: 16 random bytes.
type Owner [16]byte

// Answer is what a store knows of an operation.
type Answer struct {
	State State
	// Claim is the right to execute, where State is Claimed.
	Claim Claim
	// Record is what [Claim.Complete] was given, where State is Completed. The
	// caller does not change it.
	Record []byte
	// Fingerprint is the one that the operation was first claimed with, where
	// State is Reused.
	Fingerprint Fingerprint
	// LeaseLeft is how long the present claim still lives, where State is
	// InProgress and the store knows; otherwise 0.
	LeaseLeft time.Duration
}

// State is where an operation stands.
type State uint8

// The states of an operation. A store judges in the order Reused, Completed,
// InProgress, Unknown, Claimed.
const (
	// Claimed: nobody else may execute it now; the caller may.
	Claimed State = iota + 1
	// Completed: it was executed; here is its record.
	Completed
	// InProgress: another's claim is live.
	InProgress
	// Reused: it was claimed before with another fingerprint, and is
	// remembered. Nothing was changed.
	Reused
	// Unknown: a claim's lease ended without a settlement, and the request
	// does not allow a takeover. Nothing was changed.
	Unknown
)

// String returns the state's name in lower case.
func (s State) String() string {
	switch s {
	case Claimed:
		return "claimed"
	case Completed:
		return "completed"
	case InProgress:
		return "in progress"
	case Reused:
		return "reused"
	case Unknown:
		return "unknown"
	}
	return fmt.Sprintf("state_%d", uint8(s))
}

// Claim is the right to execute one operation, held by one owner at a time.
// Complete and Release settle it; each is a compare-and-set on owner and
// fence, and answers [ErrLeaseLost] where the claim is no longer the
// operation's latest. A settlement may be repeated, because its reply was
// lost, and then answers as it did. Renew may run beside the others.
type Claim interface {
	// Fence rises with every claim of the operation. Handlers pass it on to
	// guard effects elsewhere.
	Fence() uint64

	// Attempt counts the claims of the operation that the store remembers,
	// this one included: 1 on the first. A transactional store remembers none
	// that it rolled back.
	Attempt() int

	// Context returns ctx with what the store has for the handler, such as its
	// transaction.
	Context(ctx context.Context) context.Context

	// Complete records the outcome. Where it returns nil, record and, in a
	// transactional store, the handler's writes are durable. A claim whose
	// lease has ended can still be completed while nobody took it over.
	//
	// [ErrFull] and [ErrTooLarge] say that nothing was recorded. After any
	// error but these and ErrLeaseLost, it is not known whether it was. In a
	// transactional store the claim is over after any error.
	Complete(ctx context.Context, c Completion) error

	// Renew makes the claim live for lease from now. It does nothing in a
	// store whose claims are transactions.
	Renew(ctx context.Context, lease time.Duration) error

	// Release gives the claim up: the operation did not execute, or its
	// effects are undone with it, and the next claim may execute it at once.
	Release(ctx context.Context) error
}

// Completion is what [Claim.Complete] records.
type Completion struct {
	// Record is kept as it is. Empty is a record like any other.
	Record []byte
	// Retention is how long the record is kept. A store that cannot honour it
	// to the millisecond refuses it.
	Retention time.Duration
	// Undo undoes the handler's writes before the outcome is recorded, for an
	// operation that ended in a business error. Only a transactional store can.
	Undo bool
}

// Promise is the level of what a [Store] promises.
type Promise uint8

const (
	// OneAtATime: one executor at a time, the outcome replayed. A crash
	// between effect and record leaves an unknown outcome.
	OneAtATime Promise = iota + 1
	// ExactlyOnce: the handler's writes and the record commit in one
	// transaction. A crash at any point leaves both or neither.
	ExactlyOnce
)

// String returns the promise in words.
func (p Promise) String() string {
	switch p {
	case OneAtATime:
		return "at most one at a time"
	case ExactlyOnce:
		return "exactly once"
	}
	return fmt.Sprintf("promise_%d", uint8(p))
}
