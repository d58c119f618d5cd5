package pgstore

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed schema_v1.sql
var schemaV1 string

//go:embed partitions_v1.sql
var partitionsV1 string

// schema is tables that have a version together.
type schema struct {
	table string // where the version is
	// migrations are the steps to each version, from 1. They are never changed,
	// only followed by others.
	migrations []string
}

// schemas returns what is to be there. The partitioned table is apart, so that
// who does not use it gets nothing of it.
func (c *config) schemas() []schema {
	all := []schema{{"retrysafe_schema", []string{schemaV1}}}
	if c.partitioned() {
		all = append(all, schema{"retrysafe_partitions", []string{partitionsV1}})
	}
	return all
}

// migrationLock is the number of the advisory lock under which one process at
// a time migrates: "rtrysafe" in ASCII.
const migrationLock int64 = 0x7274727973616665

// Migrate creates the tables of both kinds of store, or brings them up to
// date. It takes [WithSchema] and [WithPartitions] where the stores do; the
// latter has it make the partitioned table and the first partitions too. It
// needs the rights to create, unless all is there already. Many processes may
// run it at once. It changes nothing and fails where the tables are of a
// version that this package does not know yet.
func Migrate(ctx context.Context, pool *pgxpool.Pool, opts ...Option) error {
	c, err := newConfig(opts)
	if err != nil {
		return err
	}
	for _, s := range c.schemas() {
		if err := s.migrate(ctx, pool, &c); err != nil {
			return fmt.Errorf("pgstore: migrate: %w", err)
		}
	}
	if err := newPartitions(pool, &c).ready(ctx); err != nil {
		return fmt.Errorf("pgstore: migrate: %w", err)
	}
	return nil
}

func (s schema) migrate(ctx context.Context, pool *pgxpool.Pool, c *config) error {
	// Without a lock, so that a role without the right to create can start
	// where there is nothing to do.
	if version, err := s.version(ctx, pool, c); err != nil || version == len(s.migrations) {
		return err
	}
	// At READ COMMITTED, whatever the database's default, for the version to be
	// what the lock's last holder committed.
	options := pgx.TxOptions{IsoLevel: pgx.ReadCommitted}
	return pgx.BeginTxFunc(ctx, pool, options, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", migrationLock); err != nil {
			return err
		}
		if err := c.enterSchema(ctx, tx); err != nil {
			return err
		}
		version, err := s.version(ctx, tx, c)
		if err != nil {
			return err
		}
		for _, step := range s.migrations[version:] {
			if _, err := tx.Exec(ctx, step); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, "UPDATE "+c.name(s.table)+" SET version = $1", len(s.migrations))
		return err
	})
}

// enterSchema makes the migrations' plain names mean objects of the schema.
func (c *config) enterSchema(ctx context.Context, tx pgx.Tx) error {
	if c.schema == nil {
		return nil
	}
	// CREATE SCHEMA IF NOT EXISTS asks for the right to create even where
	// nothing is to be created.
	var exists bool
	const look = "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)"
	if err := tx.QueryRow(ctx, look, *c.schema).Scan(&exists); err != nil {
		return err
	}
	name := pgx.Identifier{*c.schema}.Sanitize()
	if !exists {
		if _, err := tx.Exec(ctx, "CREATE SCHEMA "+name); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, "SET LOCAL search_path = "+name)
	return err
}

// querier is what a pool and a transaction have in common here.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// version returns the schema's version, 0 where there is none.
func (s schema) version(ctx context.Context, q querier, c *config) (int, error) {
	// Not by to_regclass, which answers from the session's cache: that does not
	// hear of a table that was made while the session waited for the lock.
	const look = `SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relname = $2 AND n.nspname = ANY (CASE WHEN $1::name IS NULL THEN current_schemas(false) ELSE ARRAY[$1::name] END))`
	var exists bool
	if err := q.QueryRow(ctx, look, c.schema, s.table).Scan(&exists); err != nil || !exists {
		return 0, err
	}
	var version int
	if err := q.QueryRow(ctx, "SELECT version FROM "+c.name(s.table)).Scan(&version); err != nil {
		return 0, err
	}
	if version < 1 || version > len(s.migrations) {
		return 0, fmt.Errorf("the tables are of version %d, and this package knows 1 to %d: "+
			"upgrade the program", version, len(s.migrations))
	}
	return version, nil
}
