package consumertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/grpc/codes"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/sqlitestore"
)

// payment is a message.
type payment struct {
	Account string `json:"account"`
	Amount  int64  `json:"amount"`
}

// consumer debits accounts as messages say.
type consumer struct {
	store *sqlitestore.Store
	// at is told of the points at which tests crash.
	at func(point string)
}

// handle takes one delivery of a message.
func (c *consumer) handle(ctx context.Context, msg jetstream.Msg) (dedup.Result, error) {
	c.at("received")
	result, err := dedup.Do(ctx, c.store, dedup.Operation{
		Key:         dedup.Key{Method: msg.Subject(), ID: msg.Headers().Get(jetstream.MsgIDHeader)},
		Fingerprint: dedup.FingerprintBytes(msg.Data()),
	}, func(ctx context.Context) (dedup.Outcome, error) {
		return c.debit(ctx, msg.Data())
	})
	c.at("committed")
	return result, errors.Join(err, answer(ctx, msg, err))
}

// answer tells the broker what became of a delivery.
func answer(ctx context.Context, msg jetstream.Msg, err error) error {
	var busy *dedup.InProgressError
	switch {
	case err == nil:
		return msg.DoubleAck(ctx)
	case errors.As(err, &busy):
		return msg.NakWithDelay(busy.RetryAfter)
	case errors.Is(err, dedup.ErrKeyReused), errors.Is(err, dedup.ErrNoKey), errors.Is(err, dedup.ErrOutcomeUnknown):
		return msg.TermWithReason(err.Error())
	}
	return msg.NakWithDelay(100 * time.Millisecond)
}

// debit is the handler. Its writes commit with its outcome.
func (c *consumer) debit(ctx context.Context, message []byte) (dedup.Outcome, error) {
	var p payment
	if err := json.Unmarshal(message, &p); err != nil {
		return dedup.Outcome{Code: codes.InvalidArgument, Message: "not a payment"}, nil
	}
	tx, err := sqlitestore.Tx(ctx)
	if err != nil {
		return dedup.Outcome{}, err
	}
	done, err := tx.ExecContext(ctx, "UPDATE account SET balance = balance - ? WHERE id = ? AND balance >= ?", p.Amount, p.Account, p.Amount)
	if err != nil {
		return dedup.Outcome{}, err
	}
	c.at("debited")
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return dedup.Outcome{Code: codes.FailedPrecondition, Message: "insufficient funds"}, err
	}
	return dedup.Outcome{}, nil
}

// The acknowledgement of the first delivery is lost, so the broker delivers again.
func Example() {
	if err := example(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// delivery 1 executed
	// delivery 2 replayed
	// balance 70
}

func example() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	folder, err := os.MkdirTemp("", "payments")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	broker, err := newBroker(folder, soon)
	if err != nil {
		return err
	}
	defer broker.close()
	store, err := openAccounts(ctx, filepath.Join(folder, "accounts.db"))
	if err != nil {
		return err
	}
	defer store.Close()

	c := &consumer{store: store, at: func(string) {}}
	if _, err := broker.publish(ctx, "payment-1", payment{Account: "alice", Amount: 30}); err != nil {
		return err
	}
	for _, lost := range []bool{true, false} {
		msg, err := next(ctx, broker.js)
		if err != nil {
			return err
		}
		if lost {
			msg = unacknowledged{msg}
		}
		if err := show(ctx, c, msg); err != nil {
			return err
		}
	}
	left, err := balance(ctx, store)
	fmt.Println("balance", left)
	return err
}

// show handles a delivery and says how it was answered.
func show(ctx context.Context, c *consumer, msg jetstream.Msg) error {
	meta, err := msg.Metadata()
	if err != nil {
		return err
	}
	result, err := c.handle(ctx, msg)
	if err != nil {
		return err
	}
	how := "executed"
	if result.Replayed {
		how = "replayed"
	}
	fmt.Println("delivery", meta.NumDelivered, how)
	return nil
}

// unacknowledged is a message whose acknowledgement does not reach the broker.
type unacknowledged struct{ jetstream.Msg }

// DoubleAck does nothing.
func (unacknowledged) DoubleAck(context.Context) error { return nil }
