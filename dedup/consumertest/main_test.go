package consumertest

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/retrysafe/retrysafe/dedup/sqlitestore"
)

// TestMain is also where the consumer begins that is a process of its own.
func TestMain(m *testing.M) {
	if os.Getenv(jobVariable) != "" {
		os.Exit(runChild())
	}
	goleak.VerifyTestMain(m)
}

const (
	// patience is how long a condition is waited for, far longer than it takes.
	patience = 60 * time.Second
	// soon is when the broker delivers a message again in tests that do not
	// acknowledge it. In the others it has patience.
	soon = 500 * time.Millisecond

	stream  = "PAYMENTS"
	subject = "payments.debit"
	group   = "ledger"
)

// broker is a NATS server in this process, and a connection to it.
type broker struct {
	server *server.Server
	conn   *nats.Conn
	js     jetstream.JetStream
}

// newBroker starts a server that keeps its streams in a folder, and delivers
// again what was not acknowledged by then.
func newBroker(folder string, redelivery time.Duration) (*broker, error) {
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT,
		JetStream: true, StoreDir: folder, NoLog: true, NoSigs: true,
	})
	if err != nil {
		return nil, err
	}
	s.Start()
	b := &broker{server: s}
	if !s.ReadyForConnections(patience) {
		return nil, errors.Join(errors.New("the broker does not start"), b.close())
	}
	if b.conn, b.js, err = connect(s.ClientURL()); err == nil {
		err = b.setUp(redelivery)
	}
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func connect(url string) (*nats.Conn, jetstream.JetStream, error) {
	conn, err := nats.Connect(url)
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, js, nil
}

func (b *broker) setUp(redelivery time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := b.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: stream, Subjects: []string{subject},
		// How long the broker itself knows a message by its ID. Never for ever.
		Duplicates: 100 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	_, err = b.js.CreateConsumer(ctx, stream, jetstream.ConsumerConfig{
		Durable: group, AckPolicy: jetstream.AckExplicitPolicy, AckWait: redelivery,
	})
	return err
}

func (b *broker) close() error {
	if b.conn != nil {
		b.conn.Close()
	}
	b.server.Shutdown()
	b.server.WaitForShutdown()
	return nil
}

// publish sends a message. It returns false where the broker knows its ID, and
// has dropped it.
func (b *broker) publish(ctx context.Context, id string, p payment) (bool, error) {
	data, err := json.Marshal(p)
	if err != nil {
		return false, err
	}
	ack, err := b.js.Publish(ctx, subject, data, jetstream.WithMsgID(id))
	return err == nil && !ack.Duplicate, err
}

// next waits for one delivery.
func next(ctx context.Context, js jetstream.JetStream) (jetstream.Msg, error) {
	c, err := js.Consumer(ctx, stream, group)
	if err != nil {
		return nil, err
	}
	return c.Next(jetstream.FetchContext(ctx))
}

// openAccounts opens the database, with 100 in the one account.
func openAccounts(ctx context.Context, path string) (*sqlitestore.Store, error) {
	store, err := sqlitestore.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	_, err = store.DB().ExecContext(ctx, `CREATE TABLE IF NOT EXISTS account (id TEXT PRIMARY KEY, balance INTEGER NOT NULL) STRICT;
 INSERT OR IGNORE INTO account VALUES ('alice', 100)`)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

func balance(ctx context.Context, store *sqlitestore.Store) (n int64, err error) {
	err = store.DB().QueryRowContext(ctx, "SELECT balance FROM account WHERE id = 'alice'").Scan(&n)
	return n, err
}

// rig is what a test works on.
type rig struct {
	testing.TB
	ctx      context.Context
	broker   *broker
	path     string
	store    *sqlitestore.Store
	consumer *consumer
}

func newRig(tb testing.TB, redelivery time.Duration) *rig {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	tb.Cleanup(cancel)
	r := &rig{TB: tb, ctx: ctx, path: filepath.Join(tb.TempDir(), "accounts.db")}
	var err error
	r.broker, err = newBroker(tb.TempDir(), redelivery)
	r.must(err)
	tb.Cleanup(func() { r.must(r.broker.close()) })
	r.store, err = openAccounts(ctx, r.path)
	r.must(err)
	tb.Cleanup(func() { r.must(r.store.Close()) })
	r.consumer = &consumer{store: r.store, at: func(string) {}}
	return r
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// publish sends a message that the broker takes.
func (r *rig) publish(id string, p payment) {
	r.Helper()
	for {
		taken, err := r.broker.publish(r.ctx, id, p)
		r.must(err)
		if taken {
			return
		}
		time.Sleep(10 * time.Millisecond) // until the broker has forgotten the ID
	}
}

func (r *rig) next() jetstream.Msg {
	r.Helper()
	msg, err := next(r.ctx, r.broker.js)
	r.must(err)
	return msg
}

// wantDelivery fails the test where it is not the n-th of its message.
func (r *rig) wantDelivery(msg jetstream.Msg, n uint64) {
	r.Helper()
	meta, err := msg.Metadata()
	r.must(err)
	if meta.NumDelivered != n {
		r.Errorf("delivery %d, want %d", meta.NumDelivered, n)
	}
}

func (r *rig) wantBalance(want int64) {
	r.Helper()
	got, err := balance(r.ctx, r.store)
	r.must(err)
	if got != want {
		r.Errorf("balance %d, want %d", got, want)
	}
}

// wantSettled waits until the broker has nothing more to deliver.
func (r *rig) wantSettled() {
	r.Helper()
	c, err := r.broker.js.Consumer(r.ctx, stream, group)
	r.must(err)
	for {
		info, err := c.Info(r.ctx)
		r.must(err)
		if info.NumPending == 0 && info.NumAckPending == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}
