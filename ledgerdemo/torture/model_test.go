package torture

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// input is what a client asks for: a movement of money under a key, or a look
// at the balance.
type input struct {
	account string
	key     string // none: a look
	amount  int64  // below 0: a debit
}

// answerKind is what a client was told.
type answerKind int

const (
	untold  answerKind = iota // nothing, so that it is not known whether it was executed
	done                      // it was executed
	refused                   // the account lacks money
	reused                    // the key came before with another request
)

// output is what a client was told.
type output struct {
	kind     answerKind
	balance  int64 // done: after it; refused: what is missing
	entry    int64 // done
	replayed bool
}

// call is one call of a history, with the time of its beginning and its end on
// one monotonic clock.
type call struct {
	input
	output
	client       int
	begun, ended time.Duration
}

// outcome is what a key was executed to.
type outcome struct {
	amount  int64
	refused bool
	balance int64 // as output's
	entry   int64 // 0: nobody has been told yet
}

// books are an account of a ledger that executes each key once.
type books struct {
	balance  int64
	outcomes map[string]outcome
}

// execute is what the ledger does with a key that it has not seen.
func (b books) execute(in input) (books, outcome) {
	o := outcome{amount: in.amount}
	if missing := -in.amount - b.balance; in.amount < 0 && missing > 0 {
		o.refused, o.balance = true, missing
	} else {
		b.balance += in.amount
		o.balance = b.balance
	}
	return b, o
}

// step says whether the ledger may answer so, and what it is then.
func (b books) step(in input, out output) (bool, books) {
	if in.key == "" {
		return out.kind == untold || b.balance == out.balance, b
	}
	o, known := b.outcomes[in.key]
	if out.kind == reused {
		return !known || o.amount != in.amount, b
	}
	if !known {
		b, o = b.execute(in)
	}
	if out.kind != untold {
		agree := o.amount == in.amount && o.refused == (out.kind == refused) && o.balance == out.balance &&
			(o.entry == 0 || o.entry == out.entry)
		if !agree {
			return false, b
		}
		o.entry = out.entry
	}
	if o != b.outcomes[in.key] {
		b.outcomes = maps.Clone(b.outcomes)
		if b.outcomes == nil {
			b.outcomes = make(map[string]outcome)
		}
		b.outcomes[in.key] = o
	}
	return true, b
}

// exactlyOnceModel is one account of a ledger that executes each key once. A
// call whose client was told nothing may take effect at any later time, which
// is also how it may have none: after everything else nobody sees it.
var exactlyOnceModel = porcupine.Model{
	Init:  func() any { return books{} },
	Step:  func(state, in, out any) (bool, any) { return state.(books).step(in.(input), out.(output)) },
	Equal: equalBooks,
}

func equalBooks(a, b any) bool {
	x, y := a.(books), b.(books)
	return x.balance == y.balance && maps.Equal(x.outcomes, y.outcomes)
}

// oneAnswerModel is one key of a store that executes a key again where the
// first execution's outcome is not known. Several may have executed it; but
// once an outcome has been replayed, nobody is answered anything else.
var oneAnswerModel = porcupine.Model{
	Init: func() any { return output{} },
	Step: func(state, in, out any) (bool, any) {
		kept, o := state.(output), out.(output)
		switch {
		case o.kind == untold || o.kind == reused:
			return true, kept
		case !o.replayed:
			return kept.kind == untold, kept
		}
		return kept.kind == untold || kept == o, o
	},
}

// violations checks a history, each account or key for itself, and describes
// those that cannot be.
func violations(model porcupine.Model, by func(input) string, history []call) []string {
	parts := make(map[string][]call)
	for _, c := range history {
		if name := by(c.input); name != "" {
			parts[name] = append(parts[name], c)
		}
	}
	var found []string
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		result := porcupine.CheckOperationsTimeout(model, operations(parts[name]), patience)
		if result != porcupine.Ok {
			found = append(found, fmt.Sprintf("%s: %s\n%s", name, result, describe(parts[name])))
		}
	}
	return found
}

func byAccount(in input) string { return in.account }
func byKey(in input) string     { return in.key }

// operations writes a history as porcupine has it.
func operations(history []call) []porcupine.Operation {
	var end time.Duration
	for _, c := range history {
		end = max(end, c.ended)
	}
	var all []porcupine.Operation
	for _, c := range history {
		if c.kind == untold {
			c.ended = end + 1
		}
		all = append(all, porcupine.Operation{
			ClientId: c.client, Input: c.input, Call: int64(c.begun), Output: c.output, Return: int64(c.ended),
		})
	}
	return all
}

func describe(history []call) string {
	var b strings.Builder
	slices.SortFunc(history, func(x, y call) int { return cmp.Compare(x.begun, y.begun) })
	for _, c := range history {
		fmt.Fprintf(&b, "  %v to %v: client %d: %+v: %+v\n", c.begun, c.ended, c.client, c.input, c.output)
	}
	return b.String()
}
