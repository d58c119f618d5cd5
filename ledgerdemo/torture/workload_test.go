package torture

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ledgerv1 "github.com/retrysafe/retrysafe/gen/ledger/v1"
	"github.com/retrysafe/retrysafe/ledgerdemo/ledger"
)

const (
	// crowd is how many accounts clients use at a time, and turns how many
	// calls each makes there before it goes on to the next.
	crowd, turns = 4, 12
	// keysEach is how many keys an account has. That is few, so that clients
	// repeat each other's.
	keysEach = 8
	// callTime bounds a call: some clients go away without an answer.
	callTime = 1500 * time.Millisecond
)

// client makes calls until it is stopped.
func (w *world) client(i int, accounts []string, stop <-chan struct{}) {
	r := stream(partClient + uint64(i))
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		first := min(n/turns*crowd, len(accounts)-crowd)
		in := input{account: accounts[first+r.IntN(crowd)]}
		if r.IntN(4) > 0 {
			in = w.movement(in.account, r.IntN(keysEach))
			if r.IntN(20) == 0 {
				in.amount-- // the key with another request
			}
		}
		ctx, cancel := context.WithTimeout(w.tb.Context(), callTime)
		w.call(ctx, i, in)
		cancel()
	}
}

// movement is what the n-th key of an account is for: a third are credits.
func (w *world) movement(account string, n int) input {
	amount := int64(-40 - 5*n)
	if n%3 == 0 {
		amount = 100
	}
	return input{account: account, key: fmt.Sprintf("key-%s-%d", account, n), amount: amount}
}

// call makes one call and records it.
func (w *world) call(ctx context.Context, client int, in input) output {
	c := call{input: in, client: client, begun: w.now()}
	if in.key == "" {
		c.output = w.look(ctx, in)
	} else {
		c.output = w.move(ctx, in)
	}
	c.ended = w.now()
	w.record(c)
	return c.output
}

func (w *world) look(ctx context.Context, in input) output {
	resp, err := ledgerv1.NewLedgerServiceClient(w.conn).GetAccount(ctx, &ledgerv1.GetAccountRequest{AccountId: in.account})
	if err != nil {
		return w.outputOf(err)
	}
	return output{kind: done, balance: resp.GetAccount().GetBalance().GetMinorUnits()}
}

func (w *world) move(ctx context.Context, in input) output {
	var a answer
	if in.amount < 0 {
		a = invoke(ctx, w.conn, w.debit, in.key, &ledgerv1.DebitRequest{AccountId: in.account, Amount: eur(-in.amount), Reference: in.key})
	} else {
		a = invoke(ctx, w.conn, w.credit, in.key, &ledgerv1.CreditRequest{AccountId: in.account, Amount: eur(in.amount), Reference: in.key})
	}
	out := output{kind: done, balance: a.entry.GetBalanceAfter().GetMinorUnits(), entry: a.entry.GetEntryId()}
	if a.err != nil {
		out = w.outputOf(a.err)
	}
	out.replayed = a.replayed
	return out
}

// outputOf says what an error tells. Those that no fault explains fail the
// test.
func (w *world) outputOf(err error) output {
	st := status.Convert(err)
	w.lastUntold.Store(&err)
	switch reason, metadata := reasonOf(st); {
	case reason == ledger.ReasonInsufficientFunds:
		missing, err := strconv.ParseInt(metadata[ledger.MetadataShortfall], 10, 64)
		if err != nil {
			w.tb.Error(err)
		}
		return output{kind: refused, balance: missing}
	case reason == "IDEMPOTENCY_KEY_REUSED":
		return output{kind: reused}
	case reason == "OUTCOME_UNKNOWN" && w.Kind.transactional(), reason == "RECORD_UNREADABLE":
		w.tb.Errorf("answered %v", err)
	}
	switch st.Code() {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Aborted, codes.Canceled, codes.Internal, codes.Unknown:
	default:
		w.tb.Errorf("answered %v", err)
	}
	return output{}
}

func reasonOf(st *status.Status) (string, map[string]string) {
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.GetReason(), info.GetMetadata()
		}
	}
	return "", nil
}

// settle asks once more for every key, until it is answered, and looks at every
// balance. There are no more faults.
func (w *world) settle() {
	ctx, cancel := context.WithTimeout(w.tb.Context(), patience)
	defer cancel()
	keys := make(map[string]input)
	for _, c := range w.history {
		keys[c.key] = w.asFirstAsked(c.input)
	}
	delete(keys, "")
	accounts := make(map[string]bool)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		accounts[keys[key].account] = true
		if !w.insist(ctx, keys[key]) {
			return
		}
	}
	for _, account := range slices.Sorted(maps.Keys(accounts)) {
		if !w.insist(ctx, input{account: account}) {
			return
		}
	}
}

// asFirstAsked undoes what a client did to use a key for something else.
func (w *world) asFirstAsked(in input) input {
	var n int
	if _, err := fmt.Sscanf(in.key[min(len(in.key), len("key--")+len(in.account)):], "%d", &n); err != nil {
		return in // a look
	}
	return w.movement(in.account, n)
}

// insist calls until there is an answer. That the outcome is not known is one
// of a store with leases. It returns false where none comes.
func (w *world) insist(ctx context.Context, in input) bool {
	for ctx.Err() == nil {
		attempt, cancel := context.WithTimeout(ctx, 4*callTime)
		out := w.call(attempt, clients, in)
		cancel()
		if out.kind != untold || w.debit == strictDebit && in.key != "" {
			return true
		}
	}
	w.tb.Errorf("%s: not answered after all faults are over: %v", w.name, *w.lastUntold.Load())
	return false
}
