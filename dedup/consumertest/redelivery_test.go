package consumertest

import (
	"errors"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/retrysafe/retrysafe/dedup"
)

var thirty = payment{Account: "alice", Amount: 30}

// TestAHandlerThatPanics has undone what it wrote. The next delivery executes.
func TestAHandlerThatPanics(t *testing.T) {
	r := newRig(t, soon)
	r.publish("payment-1", thirty)
	r.consumer.at = func(point string) {
		if point == "debited" {
			panic("a bug")
		}
	}
	func() {
		defer func() { _ = recover() }() // as whoever runs the consumer's loop
		_, _ = r.consumer.handle(r.ctx, r.next())
		t.Error("nothing panicked")
	}()
	r.wantBalance(100)

	r.consumer.at = func(string) {}
	msg := r.next()
	r.wantDelivery(msg, 2)
	result, err := r.consumer.handle(r.ctx, msg)
	if err != nil || result.Replayed {
		t.Errorf("%+v, %v; want that it executed", result, err)
	}
	r.wantBalance(70)
	r.wantSettled()
}

// TestAHandlerThatFails gives the message back, and the next delivery executes.
func TestAHandlerThatFails(t *testing.T) {
	r := newRig(t, patience)
	_, err := r.store.DB().Exec("ALTER TABLE account RENAME TO away")
	r.must(err)
	r.publish("payment-1", thirty)
	if _, err := r.consumer.handle(r.ctx, r.next()); err == nil {
		t.Error("no error without a table")
	}
	_, err = r.store.DB().Exec("ALTER TABLE away RENAME TO account")
	r.must(err)
	msg := r.next()
	r.wantDelivery(msg, 2)
	_, err = r.consumer.handle(r.ctx, msg)
	r.must(err)
	r.wantBalance(70)
	r.wantSettled()
}

// TestAnAcknowledgementThatIsLost: the next delivery is answered with the outcome
// of the first.
func TestAnAcknowledgementThatIsLost(t *testing.T) {
	r := newRig(t, soon)
	r.publish("payment-1", thirty)
	_, err := r.consumer.handle(r.ctx, unacknowledged{r.next()})
	r.must(err)
	r.wantBalance(70)

	msg := r.next()
	r.wantDelivery(msg, 2)
	result, err := r.consumer.handle(r.ctx, msg)
	if err != nil || !result.Replayed {
		t.Errorf("%+v, %v; want a replay", result, err)
	}
	r.wantBalance(70)
	r.wantSettled()
}

// TestAProducerThatSendsAgain after the broker has forgotten the first message.
func TestAProducerThatSendsAgain(t *testing.T) {
	r := newRig(t, patience)
	for i := range 3 {
		r.publish("payment-1", thirty)
		msg := r.next()
		r.wantDelivery(msg, 1) // a message of its own
		result, err := r.consumer.handle(r.ctx, msg)
		if err != nil || result.Replayed != (i > 0) {
			t.Errorf("message %d: %+v, %v", i, result, err)
		}
	}
	r.wantBalance(70)
	r.wantSettled()
}

// TestAProducerThatUsesAnIDTwice: the second message is refused for good.
func TestAProducerThatUsesAnIDTwice(t *testing.T) {
	r := newRig(t, patience)
	r.publish("payment-1", thirty)
	_, err := r.consumer.handle(r.ctx, r.next())
	r.must(err)
	r.publish("payment-1", payment{Account: "alice", Amount: 50})
	if _, err := r.consumer.handle(r.ctx, r.next()); !errors.Is(err, dedup.ErrKeyReused) {
		t.Error(err)
	}
	r.wantBalance(70)
	r.wantSettled()
}

// TestABusinessErrorIsAnOutcome: it is acknowledged, and stays what it was when
// there is money.
func TestABusinessErrorIsAnOutcome(t *testing.T) {
	r := newRig(t, patience)
	for i := range 2 {
		r.publish("payment-1", payment{Account: "alice", Amount: 130})
		result, err := r.consumer.handle(r.ctx, r.next())
		if err != nil || result.Outcome.Code != codes.FailedPrecondition || result.Replayed != (i > 0) {
			t.Errorf("message %d: %+v, %v", i, result, err)
		}
		_, err = r.store.DB().Exec("UPDATE account SET balance = 200")
		r.must(err)
	}
	r.wantBalance(200)
	r.wantSettled()
}

// TestASlowHandlerIsOvertakenByTheNextDelivery, which waits for it and gets its
// outcome.
func TestASlowHandlerIsOvertakenByTheNextDelivery(t *testing.T) {
	r := newRig(t, soon)
	r.publish("payment-1", thirty)
	debited, goOn := make(chan struct{}), make(chan struct{})
	slow := &consumer{store: r.store, at: func(point string) {
		if point == "debited" {
			close(debited)
			<-goOn
		}
	}}
	first, msg := make(chan error), r.next()
	go func() {
		_, err := slow.handle(r.ctx, msg)
		first <- err
	}()
	<-debited

	again := r.next() // the broker has lost its patience
	r.wantDelivery(again, 2)
	asked := make(chan struct{})
	r.consumer.at = func(point string) {
		if point == "received" {
			close(asked)
		}
	}
	second := make(chan dedup.Result)
	go func() {
		result, err := r.consumer.handle(r.ctx, again)
		if err != nil {
			t.Error(err)
		}
		second <- result
	}()
	<-asked
	close(goOn)
	r.must(<-first)
	if result := <-second; !result.Replayed {
		t.Errorf("%+v; want a replay", result)
	}
	r.wantBalance(70)
	r.wantSettled()
}
