package torture

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// at makes a call of a history that is told in order: calls follow each other,
// unless they are moved.
func at(from, to time.Duration, in input, out output) call {
	return call{input: in, output: out, begun: from, ended: to}
}

func TestTheCheckersFindWhatCannotBe(t *testing.T) {
	credit := input{account: "a", key: "credit", amount: 100}
	debit := input{account: "a", key: "debit", amount: -60}
	other := input{account: "a", key: "other", amount: -60}
	look := input{account: "a"}
	credited := at(1, 2, credit, output{kind: done, balance: 100, entry: 1})
	debited := at(3, 4, debit, output{kind: done, balance: 40, entry: 2})
	tests := []struct {
		name    string
		model   porcupine.Model
		by      func(input) string
		history []call
		sound   bool
	}{
		{"a debit, repeated and replayed", exactlyOnceModel, byAccount,
			[]call{credited, debited, at(5, 6, debit, output{kind: done, balance: 40, entry: 2}), at(7, 8, look, output{kind: done, balance: 40})}, true},
		{"a debit that is doubled", exactlyOnceModel, byAccount,
			[]call{credited, debited, at(5, 6, look, output{kind: done, balance: -20})}, false},
		{"a repeat that is executed", exactlyOnceModel, byAccount,
			[]call{credited, at(3, 4, input{"a", "debit", -10}, output{kind: done, balance: 90, entry: 2}), at(5, 6, input{"a", "debit", -10}, output{kind: done, balance: 80, entry: 3})}, false},
		{"a repeat that is answered with another entry", exactlyOnceModel, byAccount,
			[]call{credited, debited, at(5, 6, debit, output{kind: done, balance: 40, entry: 3})}, false},
		{"a debit that is lost", exactlyOnceModel, byAccount,
			[]call{credited, debited, at(5, 6, look, output{kind: done, balance: 100})}, false},
		{"a look that is stale", exactlyOnceModel, byAccount,
			[]call{credited, at(3, 4, look, output{kind: done, balance: 0})}, false},
		{"a look beside the credit", exactlyOnceModel, byAccount,
			[]call{credited, at(1, 4, look, output{kind: done, balance: 0})}, true},
		{"a debit that nobody was told of, seen later", exactlyOnceModel, byAccount,
			[]call{credited, at(3, 4, debit, output{}), at(5, 6, look, output{kind: done, balance: 100}), at(7, 8, look, output{kind: done, balance: 40})}, true},
		{"a debit that nobody was told of, seen and gone", exactlyOnceModel, byAccount,
			[]call{credited, at(3, 4, debit, output{}), at(5, 6, look, output{kind: done, balance: 40}), at(7, 8, look, output{kind: done, balance: 100})}, false},
		{"a debit that nobody was told of, twice", exactlyOnceModel, byAccount,
			[]call{credited, at(3, 4, input{"a", "debit", -10}, output{}), at(5, 6, look, output{kind: done, balance: 80})}, false},
		{"a refusal, repeated when the money is there", exactlyOnceModel, byAccount,
			[]call{at(1, 2, debit, output{kind: refused, balance: 60}), at(3, 4, credit, output{kind: done, balance: 100, entry: 1}), at(5, 6, debit, output{kind: refused, balance: 60})}, true},
		{"a refusal that becomes a debit", exactlyOnceModel, byAccount,
			[]call{at(1, 2, debit, output{kind: refused, balance: 60}), at(3, 4, credit, output{kind: done, balance: 100, entry: 1}), at(5, 6, debit, output{kind: done, balance: 40, entry: 2})}, false},
		{"a refusal for no reason", exactlyOnceModel, byAccount,
			[]call{credited, at(3, 4, debit, output{kind: refused, balance: 60})}, false},
		{"a key that is used for something else", exactlyOnceModel, byAccount,
			[]call{credited, debited, at(5, 6, input{"a", "debit", -61}, output{kind: reused})}, true},
		{"a key that is used for something else and answered", exactlyOnceModel, byAccount,
			[]call{credited, debited, at(5, 6, input{"a", "debit", -61}, output{kind: done, balance: 40, entry: 2})}, false},
		{"a repeat that is taken for something else", exactlyOnceModel, byAccount,
			[]call{credited, debited, at(5, 6, debit, output{kind: reused})}, false},
		{"two debits of the same money", exactlyOnceModel, byAccount,
			[]call{credited, at(3, 8, debit, output{kind: done, balance: 40, entry: 2}), at(3, 8, other, output{kind: done, balance: 40, entry: 3})}, false},

		{"two executions and one outcome", oneAnswerModel, byKey,
			[]call{at(1, 9, debit, output{kind: done, entry: 1}), at(2, 4, debit, output{kind: done, entry: 2}), at(5, 6, debit, output{kind: done, entry: 2, replayed: true})}, true},
		{"two outcomes", oneAnswerModel, byKey,
			[]call{at(1, 2, debit, output{kind: done, entry: 1, replayed: true}), at(3, 4, debit, output{kind: done, entry: 2, replayed: true})}, false},
		{"an execution after the outcome was told", oneAnswerModel, byKey,
			[]call{at(1, 2, debit, output{kind: done, entry: 1, replayed: true}), at(3, 4, debit, output{kind: done, entry: 2})}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			found := violations(tt.model, tt.by, tt.history)
			if (len(found) == 0) != tt.sound {
				t.Errorf("found %q; sound: %v", found, tt.sound)
			}
		})
	}
}
