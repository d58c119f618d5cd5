package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
)

// Storage is what a case works on: two stores over one storage, and what they
// can do. An ability that is declared is tested; one that is not declared is
// tested for its absence where that can be seen. Nothing is skipped.
type Storage struct {
	// First and Second work on the same storage as two processes would: neither
	// may rely on what the other holds in memory. For a storage that lives in
	// the memory of one store both are that store.
	First, Second dedup.Store

	// MinDuration is the shortest lease and the shortest retention that the
	// stores honour. Anything shorter must be refused with an error. Zero means
	// one millisecond.
	MinDuration time.Duration

	// MaxRecord is the size in bytes of the largest record that the stores
	// keep; a larger one must be refused with [dedup.ErrTooLarge]. Zero means
	// that they keep records of 4 MiB at least.
	MaxRecord int

	// ConcurrentClaims says, of stores whose claims are transactions, that
	// claims of different operations can be open at the same time. Left false
	// where the storage has one writer. Stores that promise
	// [dedup.OneAtATime] always can, whatever is said here.
	ConcurrentClaims bool

	// Effects writes and reads as a handler would. It is needed where the
	// stores promise [dedup.ExactlyOnce], and must be nil where they do not.
	Effects *Effects

	// Restart drops First and Second as the death of their processes would,
	// without settling what they have claimed, and opens the storage again. A
	// storage that does not outlive its process leaves it nil. Stores that
	// promise [dedup.ExactlyOnce] need it.
	//
	// Claims of the old stores may still be settled afterwards, and must then
	// fail where they were transactions. newStorage's cleanup closes the new
	// stores too.
	Restart func(testing.TB) (first, second dedup.Store)
}

// Effects is how the suite plays the handler of a transactional store. Markers
// are strings of up to 64 visible ASCII bytes, unique for ever: a table
// with one text column that is its primary key is enough.
type Effects struct {
	// Write writes the marker in the transaction of the claim whose context
	// ctx is. It returns an error, and writes nothing, where ctx carries no
	// claim or one that is settled.
	Write func(ctx context.Context, marker string) error

	// Written returns all markers that are committed, in any order, through no
	// claim's transaction. The suite calls it while claims are open.
	Written func(ctx context.Context) ([]string, error)

	// Fail sends a statement in the transaction of ctx that the storage
	// refuses, such as one that breaks a constraint, and returns its error.
	Fail func(ctx context.Context) error
}

// validate reports everything that is wrong with what is declared.
func (st Storage) validate() error {
	if st.First == nil || st.Second == nil {
		return errors.New("storetest: Storage needs First and Second")
	}
	var errs []error
	report := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf("storetest: "+format, args...))
		}
	}
	promise := st.First.Promise()
	report(promise != dedup.OneAtATime && promise != dedup.ExactlyOnce,
		"First promises %v, which is no promise", promise)
	report(promise != st.Second.Promise(),
		"First promises %v, Second promises %v", promise, st.Second.Promise())
	_, firstWakes := st.First.(dedup.Waiter)
	_, secondWakes := st.Second.(dedup.Waiter)
	report(firstWakes != secondWakes, "one of First and Second is a dedup.Waiter, the other is not")
	report(st.MinDuration < 0, "MinDuration: %v is negative", st.MinDuration)
	report(st.MaxRecord < 0, "MaxRecord: %d is negative", st.MaxRecord)

	transactional := promise == dedup.ExactlyOnce
	report(transactional && st.Effects == nil, "Effects: needed by stores that promise %v", promise)
	report(!transactional && st.Effects != nil, "Effects: stores that promise %v have none", promise)
	report(st.Effects != nil && (st.Effects.Write == nil || st.Effects.Written == nil || st.Effects.Fail == nil),
		"Effects: Write, Written and Fail are all needed")
	report(transactional && st.Restart == nil, "Restart: needed by stores that promise %v", promise)
	report(!transactional && st.ConcurrentClaims, "ConcurrentClaims: stores that promise %v always can", promise)
	return errors.Join(errs...)
}
