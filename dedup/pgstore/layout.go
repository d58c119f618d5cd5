package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// partitionFormat is the name of a partition: where its range begins and ends,
// in seconds since 1970.
const partitionFormat = partitionedTable + "_%d_%d"

// span is the range of a partition.
type span struct{ start, end int64 }

func (s span) name() string { return fmt.Sprintf(partitionFormat, s.start, s.end) }

// partition is a table that is or was a partition.
type partition struct {
	span
	attached bool
	pending  bool // being detached
}

// layout is what partitions there are.
type layout struct {
	schema     string // of the partitioned table
	now        int64  // the database's, in seconds since 1970
	partitions []partition
}

// manyRows is what a pool and a transaction have in common here.
type manyRows interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// readLayout asks what partitions a table has.
func readLayout(ctx context.Context, q manyRows, table string) (l layout, err error) {
	rows, err := q.Query(ctx, `SELECT n.nspname, floor(extract(epoch FROM clock_timestamp()))::bigint,
 coalesce(c.relname, ''), i.inhrelid IS NOT NULL, coalesce(i.inhdetachpending, false)
 FROM pg_catalog.pg_class p JOIN pg_catalog.pg_namespace n ON n.oid = p.relnamespace
 LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = p.relnamespace AND c.relkind = 'r' AND c.relname ~ '^`+partitionedTable+`_[0-9]+_[0-9]+$'
 LEFT JOIN pg_catalog.pg_inherits i ON i.inhrelid = c.oid AND i.inhparent = p.oid
 WHERE p.oid = `+literal(table)+`::regclass ORDER BY c.relname`)
	if err != nil {
		return l, err
	}
	var name string
	var p partition
	_, err = pgx.ForEachRow(rows, []any{&l.schema, &l.now, &name, &p.attached, &p.pending}, func() error {
		if _, err := fmt.Sscanf(name, partitionFormat, &p.start, &p.end); err == nil {
			l.partitions = append(l.partitions, p)
		}
		return nil
	})
	return l, err
}

// missing returns the partitions to be made for the present and the next two
// periods to have one, and until when there are some then. Those that were
// made with another period stay.
func (l *layout) missing(period int64) (missing []span, until int64) {
	for until = l.now; until <= l.now+2*period; {
		s, ok := l.at(until)
		if !ok {
			s = l.gap(until, period)
			missing = append(missing, s)
		}
		until = s.end
	}
	return missing, until
}

// at returns the partition of a time.
func (l *layout) at(t int64) (span, bool) {
	for _, p := range l.partitions {
		if p.attached && p.start <= t && t < p.end {
			return p.span, true
		}
	}
	return span{}, false
}

// gap is what of a time's period no partition has.
func (l *layout) gap(t, period int64) span {
	s := span{start: t - t%period, end: t - t%period + period}
	for _, p := range l.partitions {
		switch {
		case !p.attached:
		case p.end <= t:
			s.start = max(s.start, p.end)
		case p.start > t:
			s.end = min(s.end, p.start)
		}
	}
	return s
}
