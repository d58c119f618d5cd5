package pgstore_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/pgstore"
)

var modes = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
	pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
}

var levels = []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}

func withMode(mode pgx.QueryExecMode) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode }
}

// TestEveryQueryMode is for those who set a mode because of their pooler.
func TestEveryQueryMode(t *testing.T) {
	db := newDatabase(t)
	db.exec("INSERT INTO " + db.name("accounts") + " VALUES (1, 1000000)")
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			pool := db.pool(withMode(mode))
			for _, level := range levels {
				s := db.store(pool, pgstore.WithIsolation(level))
				key, batch := newKey(), newKey()
				claim := db.claim(t.Context(), s, request(key))
				db.must(db.write(claim.Context(t.Context()), key.ID))
				db.must(claim.Complete(t.Context(), recorded("paid")))
				if answer := db.wantState(s, key, dedup.Completed); string(answer.Record) != "paid" {
					t.Errorf("record %q", answer.Record)
				}
				if !db.written(key.ID) {
					t.Error("the handler's write is gone")
				}
				db.once(s, batch, false)
				db.once(s, batch, true)
			}
			l := db.leased(pool)
			key := newKey()
			claim := db.claim(t.Context(), l, request(key))
			db.must(claim.Renew(t.Context(), time.Minute))
			db.must(claim.Complete(t.Context(), recorded("paid")))
			if answer := db.wantState(l, key, dedup.Completed); string(answer.Record) != "paid" {
				t.Errorf("leased: record %q", answer.Record)
			}
		})
	}
}

func TestPreparedStatementsThatAreLostAreNamedWithTheirCure(t *testing.T) {
	db := newDatabase(t)
	s := db.store(db.pool(func(c *pgxpool.Config) { c.MaxConns = 1 }))
	db.must(db.claim(t.Context(), s, request(newKey())).Release(t.Context()))
	_, err := s.Pool().Exec(t.Context(), "DEALLOCATE ALL") // as a pooler does that gives another session
	db.must(err)
	_, err = s.Claim(t.Context(), request(newKey()))
	if err == nil || !strings.Contains(err.Error(), "default_query_exec_mode=exec") {
		t.Fatalf("error %v", err)
	}
	// The connection is gone, the next one is well.
	db.must(db.claim(t.Context(), s, request(newKey())).Release(t.Context()))
}

func TestMissingTablesAreNamedWithTheirCure(t *testing.T) {
	db := newDatabase(t)
	s, err := pgstore.New(db.pool(func(c *pgxpool.Config) { c.MaxConns = 1 }), pgstore.WithSchema("nowhere"))
	db.must(err)
	defer s.Close()
	for range 2 {
		if _, err := s.Claim(t.Context(), request(newKey())); err == nil || !strings.Contains(err.Error(), "Migrate") {
			t.Errorf("error %v", err)
		}
	}
}

func TestAKeyThatCannotBeIndexedIsRefused(t *testing.T) {
	db := newDatabase(t)
	s, l := db.store(db.pool()), db.leased(db.pool())
	key := newKey()
	key.ID = unique() + strings.Repeat("\xff\x00", 980)
	for _, store := range []dedup.Store{s, l} {
		db.must(db.claim(t.Context(), store, request(key)).Complete(t.Context(), recorded("paid")))
		db.wantState(store, key, dedup.Completed)
		long := key
		long.ID += strings.Repeat("x", 100)
		if _, err := store.Claim(t.Context(), request(long)); err == nil || strings.Contains(err.Error(), "xxx") {
			t.Errorf("error %v", err)
		}
	}
}

// TestPartsOfAKeyDoNotRunTogether would fail if the lock or the row were made
// of parts that are not told apart.
func TestPartsOfAKeyDoNotRunTogether(t *testing.T) {
	db := newDatabase(t)
	s := db.store(db.pool())
	zeros := strings.Repeat("\x00", 8)
	for _, pair := range [][2]dedup.Key{
		{{Scope: "a", Method: "bc"}, {Scope: "ab", Method: "c"}},
		{{Scope: "a" + zeros + "b", Method: "c"}, {Scope: "a", Method: "b" + zeros + "c"}},
	} {
		pair[0].ID = unique()
		pair[1].ID = pair[0].ID
		a := db.claim(t.Context(), s, request(pair[0]))
		b := db.claim(t.Context(), s, request(pair[1]))
		db.must(a.Complete(t.Context(), recorded("a")))
		db.must(b.Complete(t.Context(), recorded("b")))
	}
}

func TestStoresOfTwoSchemasDoNotMeet(t *testing.T) {
	db := newDatabase(t)
	pool := db.pool()
	db.must(pgstore.Migrate(t.Context(), pool, pgstore.WithSchema("another")))
	another, err := pgstore.New(pool, pgstore.WithSchema("another"))
	db.must(err)
	defer another.Close()
	key := newKey()
	here := db.claim(t.Context(), db.store(pool), request(key))
	there := db.claim(t.Context(), another, request(key)) // would be in progress if they shared the lock
	db.must(there.Complete(t.Context(), recorded("there")))
	db.must(here.Complete(t.Context(), recorded("here")))
}

// TestSerializableOperationsDoNotDisturbEachOther would fail if claims read the
// table of outcomes at that level: their reads and writes would meet on the
// last page of its index.
func TestSerializableOperationsDoNotDisturbEachOther(t *testing.T) {
	db := newDatabase(t)
	s := db.store(db.pool(), pgstore.WithIsolation(pgx.Serializable))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				key := newKey()
				answer, err := s.Claim(t.Context(), request(key))
				if err != nil || answer.State != dedup.Claimed {
					t.Errorf("%v, error %v", answer.State, err)
					return
				}
				if err := db.write(answer.Claim.Context(t.Context()), key.ID); err != nil {
					t.Error(err)
				}
				if err := answer.Claim.Complete(t.Context(), recorded("paid")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

func TestASerializationFailureIsAnError(t *testing.T) {
	db := newDatabase(t)
	db.exec("INSERT INTO " + db.name("accounts") + " VALUES (1, 100)")
	s := db.store(db.pool(), pgstore.WithIsolation(pgx.Serializable))
	key := newKey()
	claim := db.claim(t.Context(), s, request(key))
	tx, err := pgstore.Tx(claim.Context(t.Context()))
	db.must(err)
	var balance int
	db.must(tx.QueryRow(t.Context(), "SELECT balance FROM "+db.name("accounts")+" WHERE id = 1").Scan(&balance))
	db.exec("UPDATE " + db.name("accounts") + " SET balance = 50 WHERE id = 1")
	_, err = tx.Exec(t.Context(), "UPDATE "+db.name("accounts")+" SET balance = $1 WHERE id = 1", balance-1)
	if err == nil {
		t.Fatal("the update went through")
	}
	if err := claim.Complete(t.Context(), recorded("paid")); err == nil {
		t.Error("it was recorded")
	}
	db.wantState(s, key, dedup.Claimed) // the repeat executes
}

// TestAnOutcomeThatIsThereAlreadyStopsTheSecond is what protects where the lock
// was not respected: the primary key decides.
func TestAnOutcomeThatIsThereAlreadyStopsTheSecond(t *testing.T) {
	db := newDatabase(t)
	s := db.store(db.pool())
	key := newKey()
	claim := db.claim(t.Context(), s, request(key))
	db.must(db.write(claim.Context(t.Context()), key.ID))
	db.must(db.recordBehindTheStoresBack(key))
	err := claim.Complete(t.Context(), recorded("second"))
	if err == nil {
		t.Fatal("it was recorded twice")
	}
	if strings.Contains(err.Error(), key.ID) {
		t.Errorf("the error shows the key: %v", err)
	}
	if db.written(key.ID) {
		t.Error("the second's write stands")
	}
	if answer := db.wantState(s, key, dedup.Completed); string(answer.Record) != "first" {
		t.Errorf("record %q", answer.Record)
	}
}

// TestAClaimHoldsItsPlace at levels at which it would not see another's
// outcome.
func TestAClaimHoldsItsPlace(t *testing.T) {
	for _, level := range levels[1:] {
		db := newDatabase(t)
		s := db.store(db.pool(), pgstore.WithIsolation(level))
		key := newKey()
		claim := db.claim(t.Context(), s, request(key))
		var pg *pgconn.PgError
		if err := db.recordBehindTheStoresBack(key); !errors.As(err, &pg) || pg.Code != "55P03" { // lock_not_available
			t.Errorf("%s: another recorded it: %v", level, err)
		}
		db.must(claim.Complete(t.Context(), recorded("paid")))
		db.wantState(s, key, dedup.Completed)
	}
}

// recordBehindTheStoresBack does not take the operation's lock.
func (db *database) recordBehindTheStoresBack(key dedup.Key) error {
	var b pgx.Batch
	b.Queue("SET LOCAL lock_timeout = '200ms'")
	b.Queue("INSERT INTO "+db.name("retrysafe_outcomes")+` (id, method, scope, fingerprint_version, fingerprint,
		fence, record, completed_at, expires_at) VALUES ($1, $2, $3, 1, $4, 1, 'first', now(), now() + interval '1 hour')`,
		[]byte(key.ID), []byte(key.Method), []byte(key.Scope), fingerprint.Sum[:])
	return pgx.BeginFunc(db.Context(), db.admin, func(tx pgx.Tx) error { return tx.SendBatch(db.Context(), &b).Close() })
}

func TestAnExpiredOutcomeIsGoneBeforeItIsSwept(t *testing.T) {
	for _, level := range levels {
		t.Run(string(level), func(t *testing.T) {
			db := newDatabase(t)
			pool := db.pool()
			s := db.store(pool, pgstore.WithIsolation(level), pgstore.WithoutSweeping())
			for _, store := range []*pgstore.Store{s, db.store(pool, pgstore.WithIsolation(level), pgstore.WithoutSweeping())} {
				key, batch := newKey(), newKey()
				for range 2 { // the second time it is there and has expired
					db.must(db.claim(t.Context(), s, request(key)).Complete(t.Context(), recorded("paid")))
					db.once(s, batch, false)
					db.wantState(s, key, dedup.Completed)
					db.exec("UPDATE " + db.name("retrysafe_outcomes") + " SET expires_at = now()")
				}
				claim := db.claim(t.Context(), store, request(key))
				db.must(claim.Complete(t.Context(), recorded("anew")))
				db.once(store, batch, false)
			}
		})
	}
}

func TestAWaitingDuplicateGetsTheOutcome(t *testing.T) {
	for _, level := range levels {
		t.Run(string(level), func(t *testing.T) {
			db := newDatabase(t)
			holder := db.store(db.pool(), pgstore.WithIsolation(level))
			waiter := db.store(db.pool(), pgstore.WithIsolation(level))
			key := newKey()
			claim := db.claim(t.Context(), holder, request(key))
			answers := make(chan dedup.Answer)
			go func() {
				answer, err := waiter.Claim(t.Context(), request(key))
				if err != nil {
					t.Error(err)
				}
				answers <- answer
			}()
			db.eventually(db.somebodyWaits)
			db.must(claim.Complete(t.Context(), recorded("paid")))
			if answer := <-answers; answer.State != dedup.Completed || string(answer.Record) != "paid" {
				t.Errorf("answered %v with %q", answer.State, answer.Record)
			}
		})
	}
}

// somebodyWaits says whether a duplicate waits in the database.
func (db *database) somebodyWaits() bool {
	db.Helper()
	return db.count("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = "+
		"(SELECT oid FROM pg_database WHERE datname = current_database())") > 0
}

func TestAWaitingDuplicateExecutesWhereTheFirstGaveUp(t *testing.T) {
	db := newDatabase(t)
	s := db.store(db.pool())
	key := newKey()
	first := db.claim(t.Context(), s, request(key))
	var executed atomic.Int64
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			answer, err := s.Claim(t.Context(), request(key))
			switch {
			case err != nil:
				t.Error(err)
			case answer.State == dedup.Claimed:
				executed.Add(1)
				if answer.Claim.Fence() <= first.Fence() {
					t.Errorf("fence %d after fence %d", answer.Claim.Fence(), first.Fence())
				}
				if err := answer.Claim.Complete(t.Context(), recorded("paid")); err != nil {
					t.Error(err)
				}
			case answer.State != dedup.Completed:
				t.Errorf("answered %v", answer.State)
			}
		})
	}
	db.eventually(db.somebodyWaits)
	db.must(first.Release(t.Context()))
	all.Wait()
	if n := executed.Load(); n != 1 {
		t.Errorf("executed %d times, want once", n)
	}
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	db := newDatabase(t)
	s := db.store(db.pool())
	key := newKey()
	claim := db.claim(t.Context(), s, request(key))
	connections := s.Pool().Stat().NewConnsCount()

	// Long enough for the store to leave its whole margin before the deadline.
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	answer, err := s.Claim(ctx, request(key))
	if err != nil || answer.State != dedup.InProgress {
		t.Errorf("answered %v, error %v", answer.State, err)
	}
	if ctx.Err() != nil {
		t.Error("the answer came after the deadline")
	}
	db.must(claim.Release(t.Context()))
	// The wait's connection is as good as new.
	db.wantState(s, key, dedup.Claimed)
	if n := s.Pool().Stat().NewConnsCount(); n > connections+1 {
		t.Errorf("%d connections were made for one wait", n-connections)
	}

	claim = db.claim(t.Context(), s, request(key))
	cancelled, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if answer, err := s.Claim(cancelled, request(key)); err != nil || answer.State != dedup.InProgress {
			t.Errorf("answered %v, error %v", answer.State, err)
		}
	}()
	db.eventually(db.somebodyWaits)
	cancel()
	<-done
	db.must(claim.Release(t.Context()))
}

// TestAStormOfDuplicatesLeavesThePoolToOthers holds an operation while many
// ask for it, and executes others in the meantime.
func TestAStormOfDuplicatesLeavesThePoolToOthers(t *testing.T) {
	db := newDatabase(t)
	s := db.store(db.pool(func(c *pgxpool.Config) { c.MaxConns = 4 }))
	key := newKey()
	claim := db.claim(t.Context(), s, request(key))
	var replayed atomic.Int64
	var storm sync.WaitGroup
	for range 200 {
		storm.Go(func() {
			answer, err := s.Claim(t.Context(), request(key))
			if err != nil {
				t.Error(err)
			} else if answer.State == dedup.Completed {
				replayed.Add(1)
			}
		})
	}
	db.eventually(db.somebodyWaits)
	var others sync.WaitGroup
	for range 4 {
		others.Go(func() {
			for range 10 {
				answer, err := s.Claim(t.Context(), request(newKey()))
				if err != nil || answer.State != dedup.Claimed {
					t.Errorf("answered %v, error %v", answer.State, err)
					return
				}
				if err := answer.Claim.Complete(t.Context(), recorded("paid")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	others.Wait() // would last for ever if the storm held the pool
	db.must(claim.Complete(t.Context(), recorded("paid")))
	storm.Wait()
	if n := replayed.Load(); n != 200 {
		t.Errorf("%d of 200 got the outcome", n)
	}
}

// TestManyWaitersOfManyOperations: those who wait for different operations
// share the part of the pool that is for waiting.
func TestManyWaitersOfManyOperations(t *testing.T) {
	db := newDatabase(t)
	holder := db.store(db.pool())
	s := db.store(db.pool(func(c *pgxpool.Config) { c.MaxConns = 2 }))
	var waiters sync.WaitGroup
	claims := make([]dedup.Claim, 6)
	for i := range claims {
		key := newKey()
		claims[i] = db.claim(t.Context(), holder, request(key))
		waiters.Go(func() {
			answer, err := s.Claim(t.Context(), request(key))
			if err != nil || answer.State != dedup.Completed {
				t.Errorf("answered %v, error %v", answer.State, err)
			}
		})
	}
	db.eventually(db.somebodyWaits)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range 50 { // time for all of them to wait, if they could
		db.must(db.claim(ctx, s, request(newKey())).Complete(ctx, recorded("paid")))
		time.Sleep(5 * time.Millisecond)
	}
	for _, claim := range claims {
		db.must(claim.Complete(t.Context(), recorded("paid")))
	}
	waiters.Wait()
}

func TestAnEngineOnTheStore(t *testing.T) {
	db := newDatabase(t)
	s := db.store(db.pool())
	engine, err := dedup.NewEngine(s)
	db.must(err)
	defer engine.Close()
	op := dedup.Operation{Key: newKey(), Fingerprint: fingerprint}
	var executed atomic.Int64
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			result, err := engine.Do(t.Context(), op, func(ctx context.Context) (dedup.Outcome, error) {
				executed.Add(1)
				return dedup.Outcome{Message: "paid"}, db.write(ctx, op.Key.ID)
			})
			if err != nil || result.Outcome.Message != "paid" {
				t.Errorf("%+v, error %v", result, err)
			}
		})
	}
	all.Wait()
	if n := executed.Load(); n != 1 || !db.written(op.Key.ID) {
		t.Errorf("executed %d times", n)
	}
	op.Key = newKey()
	broken := errors.New("broken")
	if _, err := engine.Do(t.Context(), op, func(ctx context.Context) (dedup.Outcome, error) {
		return dedup.Outcome{}, errors.Join(db.write(ctx, op.Key.ID), broken)
	}); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	if db.written(op.Key.ID) {
		t.Error("what an uncertain execution wrote stands")
	}
}
