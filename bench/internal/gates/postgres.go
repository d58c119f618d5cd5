package gates

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"time"

	cryptorand "crypto/rand"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/pgstore"
)

const (
	accounts = 1000

	// accountsSQL is what debits change.
	accountsSQL = `CREATE TABLE account (id integer PRIMARY KEY, balance bigint NOT NULL);
CREATE TABLE entry (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, account integer NOT NULL, amount bigint NOT NULL);
CREATE TABLE naive (key text PRIMARY KEY, fingerprint bytea NOT NULL, response bytea, created_at timestamptz NOT NULL DEFAULT now());
INSERT INTO account SELECT i, 1000000000 FROM generate_series(0, 999) AS i;`

	updateSQL = "UPDATE account SET balance = balance - $1 WHERE id = $2"
	insertSQL = "INSERT INTO entry (account, amount) VALUES ($1, $2)"
)

// bank is a database of its own with accounts and a store's tables.
type bank struct {
	pool  *pgxpool.Pool
	store *pgstore.Store
	close func() error
}

// newBank makes a database, with a pool of so many connections.
func newBank(ctx context.Context, m *Machine, connections int, configure func(*pgxpool.Config)) (*bank, error) {
	server, err := m.postgresURL()
	if err != nil {
		return nil, err
	}
	name := "retrysafe_bench_" + strings.ToLower(cryptorand.Text())
	if err := onServer(ctx, server, "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		return nil, err
	}
	b := &bank{}
	b.close = func() error {
		if b.store != nil {
			_ = b.store.Close() // always nil
		}
		if b.pool != nil {
			b.pool.Close()
		}
		return onServer(context.WithoutCancel(ctx), server, "DROP DATABASE "+name+" WITH (FORCE)")
	}
	if err := b.open(ctx, server, name, connections, configure); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *bank) open(ctx context.Context, server, name string, connections int, configure func(*pgxpool.Config)) error {
	database, err := url.Parse(server)
	if err != nil {
		return err
	}
	database.Path = "/" + name
	config, err := pgxpool.ParseConfig(database.String())
	if err != nil {
		return err
	}
	config.MaxConns = int32(connections)
	if configure != nil {
		configure(config)
	}
	if b.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	if _, err := b.pool.Exec(ctx, accountsSQL); err != nil {
		return err
	}
	if err := pgstore.Migrate(ctx, b.pool); err != nil {
		return err
	}
	b.store, err = pgstore.New(b.pool, pgstore.WithoutSweeping())
	return err
}

func onServer(ctx context.Context, server, sql string) error {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	return errors.Join(err, conn.Close(ctx))
}

// handle is the handler of two statements.
func (b *bank) handle(ctx context.Context, tx pgx.Tx) error {
	account := rand.N(accounts)
	if _, err := tx.Exec(ctx, updateSQL, 1, account); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, insertSQL, account, -1)
	return err
}

// bare is the debit without deduplication.
func (b *bank) bare(ctx context.Context) error {
	return pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error { return b.handle(ctx, tx) })
}

// naive is what is commonly written by hand: six trips.
func (b *bank) naive(ctx context.Context) error {
	key := newKey()
	return pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		const claim = "INSERT INTO naive (key, fingerprint) VALUES ($1, $2) ON CONFLICT DO NOTHING"
		if _, err := tx.Exec(ctx, claim, key.ID, debitFingerprint.Sum[:]); err != nil {
			return err
		}
		if err := b.handle(ctx, tx); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "UPDATE naive SET response = $2 WHERE key = $1", key.ID, record)
		return err
	})
}

// debit is the debit under a claim of the store.
func (b *bank) debit(ctx context.Context) error { return b.debitOnce(ctx, newKey()) }

func (b *bank) debitOnce(ctx context.Context, key dedup.Key) error {
	_, err := b.debitTimed(ctx, b.store, key)
	return err
}

// debitTimed also returns how long the claim took.
func (b *bank) debitTimed(ctx context.Context, store dedup.Store, key dedup.Key) (time.Duration, error) {
	began := time.Now()
	answer, err := store.Claim(ctx, claimRequest(key))
	took := time.Since(began)
	if err != nil {
		return 0, err
	}
	if answer.State != dedup.Claimed {
		return 0, fmt.Errorf("answered %v", answer.State)
	}
	handling := answer.Claim.Context(ctx)
	tx, err := pgstore.Tx(handling)
	if err == nil {
		err = b.handle(handling, tx)
	}
	if err != nil {
		return 0, errors.Join(err, answer.Claim.Release(ctx))
	}
	return took, answer.Claim.Complete(ctx, completion)
}

// oneTrip is the same debit as a batch.
func (b *bank) oneTrip(ctx context.Context) error {
	account := rand.N(accounts)
	var statements pgx.Batch
	statements.Queue(updateSQL, 1, account)
	statements.Queue(insertSQL, account, -1)
	result, err := b.store.Once(ctx, pgstore.Batch{Key: newKey(), Fingerprint: debitFingerprint, Retention: completion.Retention,
		Statements: &statements, Record: record})
	if err == nil && result.Replayed {
		err = errors.New("a new key was replayed")
	}
	return err
}
