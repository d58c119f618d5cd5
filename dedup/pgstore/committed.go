package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// readCommitted runs what add queues in a READ COMMITTED transaction of its
// own, in one trip, whatever the database's default level is.
func readCommitted(ctx context.Context, pool *pgxpool.Pool, add func(*pgx.Batch)) error {
	var b pgx.Batch
	b.Queue("begin isolation level read committed")
	add(&b)
	b.Queue("commit")
	return pool.SendBatch(ctx, &b).Close()
}
