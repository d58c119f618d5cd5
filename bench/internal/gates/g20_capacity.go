package gates

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/retrysafe/retrysafe/bench/internal/measure"
	"github.com/retrysafe/retrysafe/dedup/redisstore"
)

// capacity: what a record takes, and what a debit writes, for the arithmetic
// of docs/scaling.md.
func capacity(ctx context.Context, m *Machine) ([]measure.Finding, error) {
	debits := 20_000
	if m.Plan.Short {
		debits /= 10
	}
	findings, err := postgresCapacity(ctx, m, debits)
	if err != nil {
		return findings, err
	}
	for _, measured := range []func(context.Context, *Machine, int) ([]measure.Finding, error){sqliteCapacity, redisCapacity} {
		f, err := measured(ctx, m, debits)
		if err != nil {
			return findings, err
		}
		findings = append(findings, f...)
	}
	return findings, nil
}

func postgresCapacity(ctx context.Context, m *Machine, debits int) (_ []measure.Finding, err error) {
	b, err := newBank(ctx, m, 16, nil)
	if err != nil {
		return nil, err
	}
	defer closing(b.close, &err)
	var findings []measure.Finding
	for _, way := range []struct {
		name string
		do   func(context.Context) error
	}{{"without deduplication", b.bare}, {"exactly once", b.debit}, {"one trip", b.oneTrip}, {"six trips by hand", b.naive}} {
		wal, err := b.walOf(ctx, debits, way.do)
		if err != nil {
			return nil, err
		}
		findings = append(findings, told("PostgreSQL, "+way.name+": WAL of a debit", measure.Exactly(wal), measure.Byte))
	}
	table, err := b.bytesPerRow(ctx, "pg_table_size")
	if err != nil {
		return nil, err
	}
	indexes, err := b.bytesPerRow(ctx, "pg_indexes_size")
	return append(findings,
		told("PostgreSQL: table, for each outcome", measure.Exactly(table), measure.Byte),
		told("PostgreSQL: its two indexes, for each outcome", measure.Exactly(indexes), measure.Byte)), err
}

// walOf returns the WAL of each debit right after a checkpoint, which has the
// first change of each page write the whole page.
func (b *bank) walOf(ctx context.Context, n int, debit func(context.Context) error) (float64, error) {
	if _, err := b.pool.Exec(ctx, "CHECKPOINT"); err != nil {
		return 0, err
	}
	const position = "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"
	var before, after float64
	if err := b.pool.QueryRow(ctx, position).Scan(&before); err != nil {
		return 0, err
	}
	if err := measure.Repeat(ctx, 16, n, debit); err != nil {
		return 0, err
	}
	err := b.pool.QueryRow(ctx, position).Scan(&after)
	return (after - before) / float64(n), err
}

func (b *bank) bytesPerRow(ctx context.Context, function string) (bytes float64, err error) {
	err = b.pool.QueryRow(ctx, fmt.Sprintf(
		"SELECT %s('retrysafe_outcomes')::float8 / (SELECT count(*) FROM retrysafe_outcomes)", function)).Scan(&bytes)
	return bytes, err
}

func sqliteCapacity(ctx context.Context, _ *Machine, records int) (_ []measure.Finding, err error) {
	f, err := newFile(ctx)
	if err != nil {
		return nil, err
	}
	defer closing(f.remove, &err)
	if err := f.fill(ctx, 1000, time.Hour); err != nil { // so that no page is empty
		return nil, err
	}
	before, err := os.Stat(f.path)
	if err != nil {
		return nil, err
	}
	if err := f.fill(ctx, records, time.Hour); err != nil {
		return nil, err
	}
	after, err := os.Stat(f.path)
	if err != nil {
		return nil, err
	}
	perRecord := float64(after.Size()-before.Size()) / float64(records)
	return []measure.Finding{told("SQLite: the file, for each outcome", measure.Exactly(perRecord), measure.Byte)}, nil
}

func redisCapacity(ctx context.Context, m *Machine, records int) (_ []measure.Finding, err error) {
	url, err := m.redisURL()
	if err != nil {
		return nil, err
	}
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	client := redis.NewClient(options)
	defer closing(client.Close, &err)
	store, err := redisstore.New(ctx, client, redisstore.WithPrefix("retrysafe-bench:"))
	if err != nil {
		return nil, err
	}
	defer closing(store.Close, &err)
	before, err := datasetBytes(ctx, client)
	if err != nil {
		return nil, err
	}
	for range records {
		if err := execute(ctx, store); err != nil {
			return nil, err
		}
	}
	after, err := datasetBytes(ctx, client)
	return []measure.Finding{told("Redis: memory, for each outcome", measure.Exactly((after-before)/float64(records)), measure.Byte)}, err
}

func datasetBytes(ctx context.Context, client *redis.Client) (float64, error) {
	info, err := client.Info(ctx, "memory").Result()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "used_memory:"); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("INFO memory says nothing of used_memory")
}
