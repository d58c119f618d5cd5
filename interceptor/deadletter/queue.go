package deadletter

import (
	"context"
	"errors"

	retrysafev1 "github.com/retrysafe/retrysafe/gen/retrysafe/v1"
)

// Letter is a call that exhausted its retries: proto/retrysafe/v1/letter.proto
// describes it.
type Letter = retrysafev1.Letter

// Status is what the last attempt of a letter answered, with the fields of
// google.rpc.Status.
type Status = retrysafev1.Letter_Status

// ErrNotFound says that a queue has no letter of that id.
var ErrNotFound = errors.New("deadletter: no such letter")

// Queue keeps letters. It is safe for concurrent use. Packages sqlitequeue and
// pgqueue have implementations; package queuetest checks one.
//
// A Queue does not keep the letters it is given, nor those it returns: either
// side may change them afterwards.
type Queue interface {
	// Put keeps a letter under its id. A second Put of the same id, because
	// the first's reply was lost, changes nothing and returns nil.
	Put(ctx context.Context, letter *Letter) error

	// Get returns the letter, or [ErrNotFound].
	Get(ctx context.Context, id string) (*Letter, error)

	// List returns up to limit letters whose ids come after the one given, in
	// the order of their ids, none where limit is not above 0. An empty after
	// starts with the first. Ids begin
	// with the millisecond in which they were made, by the clock of their
	// client, so a letter may come to stand before one that was listed already:
	// begin anew now and then.
	List(ctx context.Context, after string, limit int) ([]*Letter, error)

	// Update replaces the letter of the same id, or returns [ErrNotFound].
	Update(ctx context.Context, letter *Letter) error

	// Remove discards the letter, or returns [ErrNotFound].
	Remove(ctx context.Context, id string) error
}
