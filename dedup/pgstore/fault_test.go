package pgstore_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/pgstore"
)

// TestTheSessionDiesAtEachStep: the server ends it, and the operation takes
// effect once all the same.
func TestTheSessionDiesAtEachStep(t *testing.T) {
	for _, step := range []string{"before the claim", "after the claim", "after the write", "within a batch"} {
		t.Run(step, func(t *testing.T) {
			db := newDatabase(t)
			application := "retrysafe " + unique()
			s := db.store(db.pool(named(application), oneConnection))
			db.wantState(s, newKey(), dedup.Claimed) // there is a connection
			key := newKey()
			dies := func(now string) {
				if now == step {
					db.kill(application)
				}
			}
			attempt := func() error {
				dies("before the claim")
				if step == "within a batch" {
					dies("within a batch")
					_, err := s.Once(t.Context(), db.markerBatch(key))
					return err
				}
				answer, err := s.Claim(t.Context(), request(key))
				if err != nil {
					return err
				}
				dies("after the claim")
				err = db.write(answer.Claim.Context(t.Context()), key.ID)
				dies("after the write")
				return errors.Join(err, answer.Claim.Complete(t.Context(), recorded("paid")))
			}
			if err := attempt(); err == nil {
				t.Fatal("nothing failed")
			}
			if db.written(key.ID) {
				t.Error("half an operation stands")
			}
			step = "" // the repeat
			db.must(attempt())
			if !db.written(key.ID) {
				t.Error("the repeat wrote nothing")
			}
			db.wantState(s, key, dedup.Completed)
		})
	}
}

// TestAReleaseThatCannotBeSentIsAnError, because the server may hold the
// operation for longer.
func TestAReleaseThatCannotBeSentIsAnError(t *testing.T) {
	db := newDatabase(t)
	application := "retrysafe " + unique()
	s := db.store(db.pool(named(application)))
	claim := db.claim(t.Context(), s, request(newKey()))
	db.kill(application)
	if err := claim.Release(t.Context()); err == nil {
		t.Error("it went through")
	}
}

// TestTheCommitsReplyIsLost: the server has committed, and only the repeat
// finds out.
func TestTheCommitsReplyIsLost(t *testing.T) {
	for _, once := range []bool{false, true} {
		db := newDatabase(t)
		var cut cutter
		s := db.store(db.pool(cut.configure, oneConnection))
		key := newKey()
		var err error
		if once {
			db.wantState(s, newKey(), dedup.Claimed) // there is a connection
			_, err = s.Once(t.Context(), db.markerBatch(newKey()))
			db.must(err) // its statements are prepared
			cut.afterNextWrite(func() { db.eventually(func() bool { return db.written(key.ID) }) })
			_, err = s.Once(t.Context(), db.markerBatch(key))
		} else {
			claim := db.claim(t.Context(), s, request(key))
			db.must(db.write(claim.Context(t.Context()), key.ID))
			cut.afterNextWrite(func() { db.eventually(func() bool { return db.written(key.ID) }) })
			err = claim.Complete(t.Context(), recorded("paid"))
		}
		if err == nil {
			t.Fatal("somebody was told of success without knowing")
		}
		if errors.Is(err, dedup.ErrFull) || errors.Is(err, dedup.ErrTooLarge) || errors.Is(err, dedup.ErrLeaseLost) {
			t.Errorf("%v says that nothing was recorded", err)
		}
		if answer := db.wantState(s, key, dedup.Completed); string(answer.Record) != "paid" {
			t.Errorf("record %q", answer.Record)
		}
	}
}

// TestTheCommitIsLost: it never reaches the server, which rolls back.
func TestTheCommitIsLost(t *testing.T) {
	db := newDatabase(t)
	var cut cutter
	s := db.store(db.pool(cut.configure, oneConnection))
	key := newKey()
	claim := db.claim(t.Context(), s, request(key))
	db.must(db.write(claim.Context(t.Context()), key.ID))
	cut.beforeNextWrite()
	if err := claim.Complete(t.Context(), recorded("paid")); err == nil {
		t.Fatal("it was recorded")
	}
	db.wantState(s, key, dedup.Claimed)
	if db.written(key.ID) {
		t.Error("the handler's write stands")
	}
}

// cutter cuts a pool's connections at a write.
type cutter struct {
	mu     sync.Mutex
	before bool
	after  func()
}

func (c *cutter) configure(config *pgxpool.Config) {
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return &cutConn{Conn: conn, cutter: c}, err
	}
}

// beforeNextWrite lets the next write not get through.
func (c *cutter) beforeNextWrite() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before = true
}

// afterNextWrite cuts when the next write is through and wait has returned.
func (c *cutter) afterNextWrite(wait func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.after = wait
}

func (c *cutter) take() (before bool, after func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, after = c.before, c.after
	c.before, c.after = false, nil
	return before, after
}

type cutConn struct {
	net.Conn
	cutter *cutter
}

var errCut = errors.New("the connection was cut")

func (c *cutConn) Write(b []byte) (int, error) {
	before, after := c.cutter.take()
	if before {
		return 0, errors.Join(errCut, c.Close())
	}
	n, err := c.Conn.Write(b)
	if after != nil {
		after()
		return n, errors.Join(err, c.Close())
	}
	return n, err
}

// markerBatch is a batch that writes the key's ID.
func (db *database) markerBatch(key dedup.Key) pgstore.Batch {
	b := pgstore.Batch{Key: key, Fingerprint: fingerprint, Retention: request(key).Retention, Record: []byte("paid")}
	b.Statements = newBatch("INSERT INTO "+db.name("effects")+" VALUES ($1)", key.ID)
	return b
}
