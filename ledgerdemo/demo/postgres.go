package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe/ledgerdemo/database"
)

// schema is a run's own schema in a PostgreSQL database. Its servers' sessions
// have its name.
type schema struct {
	name string
	url  database.URL // of sessions in it
	conn *pgx.Conn    // of a session beside it
}

func newSchema(ctx context.Context, at database.URL, name string) (*schema, error) {
	url, err := at.With(map[string]string{"search_path": name, "application_name": name})
	if err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, at.Address)
	if err != nil {
		return nil, fmt.Errorf("connect to %v: %w", at, err)
	}
	ctx, cancel := unbroken(ctx)
	defer cancel()
	if _, err := conn.Exec(ctx, "CREATE SCHEMA "+name); err != nil {
		return nil, errors.Join(fmt.Errorf("make a schema in %v: %w", at, err), conn.Close(ctx))
	}
	return &schema{name: name, url: url, conn: conn}, nil
}

// clearTimeout bounds what is done in servers although the run may be over.
const clearTimeout = 30 * time.Second

// unbroken lets a statement end although ctx has: one that is interrupted takes
// its connection with it, which has the schema to drop.
func unbroken(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), clearTimeout)
}

// terminate ends a session of the run's servers, one that is at work before one
// that is idle. It returns false where there is none.
func (s *schema) terminate(ctx context.Context) (bool, error) {
	ctx, cancel := unbroken(ctx)
	defer cancel()
	var ended *bool
	err := s.conn.QueryRow(ctx, `SELECT pg_terminate_backend((
		SELECT pid FROM pg_stat_activity WHERE application_name = $1 ORDER BY state = 'idle', random() LIMIT 1))`, s.name).Scan(&ended)
	if err != nil {
		return false, fmt.Errorf("terminate a session: %w", err)
	}
	return ended != nil && *ended, nil
}

func (s *schema) drop(ctx context.Context) error {
	if _, err := s.conn.Exec(ctx, "DROP SCHEMA "+s.name+" CASCADE"); err != nil {
		return fmt.Errorf("drop the schema %s: %w", s.name, err)
	}
	return nil
}

func (s *schema) close(ctx context.Context) error { return s.conn.Close(ctx) }
