package pgstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// The transactional store speaks to the server through pgconn: several
// statements in one trip, prepared once for each connection, encoded by hand.
// It costs the client half of what a pgx.Batch does, it leaves pgx's statement
// cache to the handlers, and no tracer sees a key.

// statement is SQL of the store's own, with the types of its parameters.
type statement struct {
	name string // what it is prepared as
	sql  string
	oids []uint32
}

func newStatement(sql string, oids ...uint32) statement {
	sum := sha256.Sum256([]byte(sql))
	return statement{name: "retrysafe_" + hex.EncodeToString(sum[:8]), sql: sql, oids: oids}
}

// binaryFormat is the format of all parameters and results.
var binaryFormat = []int16{pgtype.BinaryFormatCode}

// preparedKey is where a connection keeps what is prepared on it.
const preparedKey = "github.com/retrysafe/retrysafe/dedup/pgstore"

// descriptions are of the statements that are prepared on a connection, by
// name.
type descriptions map[string]*pgconn.StatementDescription

// prepareAll prepares those statements that are not yet, in one trip.
func prepareAll(ctx context.Context, conn *pgconn.PgConn, all []statement) (descriptions, error) {
	prepared, _ := conn.CustomData()[preparedKey].(descriptions)
	var missing []statement
	for _, st := range all {
		if _, ok := prepared[st.name]; !ok {
			missing = append(missing, st)
		}
	}
	if len(missing) == 0 {
		return prepared, nil
	}
	made, err := prepare(ctx, conn, missing)
	if err != nil {
		_ = conn.Close(ctx) // those before the one that failed are there
		return nil, err
	}
	maps.Copy(made, prepared)
	conn.CustomData()[preparedKey] = made
	return made, nil
}

func prepare(ctx context.Context, conn *pgconn.PgConn, statements []statement) (descriptions, error) {
	made := make(descriptions, len(statements))
	pipeline := conn.StartPipeline(ctx)
	for _, st := range statements {
		pipeline.SendPrepare(st.name, st.sql, st.oids)
	}
	_ = pipeline.Sync() // an error comes again with the results
	for _, st := range statements {
		result, err := pipeline.GetResults()
		if err != nil {
			return nil, errors.Join(err, ignoreServer(pipeline.Close()))
		}
		description, ok := result.(*pgconn.StatementDescription)
		if !ok {
			return nil, errors.Join(fmt.Errorf("the server described a statement by %T", result), pipeline.Close())
		}
		description.Name, description.SQL = st.name, st.sql
		made[st.name] = description
	}
	return made, pipeline.Close()
}

// ignoreServer drops an error that the server sent, which has been seen.
func ignoreServer(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return nil
	}
	return err
}

// trip is statements that travel together. Where one fails, the server skips
// those after it.
type trip struct {
	conn     *pgconn.PgConn
	prepared descriptions // nil where nothing may be prepared
	batch    pgconn.Batch
}

// newTrip begins a trip on conn.
func (s *Store) newTrip(ctx context.Context, conn *pgx.Conn) (*trip, error) {
	t := &trip{conn: conn.PgConn()}
	if s.unprepared {
		return t, nil
	}
	var err error
	t.prepared, err = prepareAll(ctx, t.conn, s.sql.all)
	return t, err
}

func (t *trip) add(st *statement, params ...[]byte) {
	if t.prepared == nil {
		t.batch.ExecParams(st.sql, params, st.oids, binaryFormat, binaryFormat)
		return
	}
	t.batch.ExecStatement(t.prepared[st.name], params, binaryFormat, binaryFormat)
}

// addText adds SQL that is not worth preparing.
func (t *trip) addText(sql string) {
	t.batch.ExecParams(sql, nil, nil, nil, nil)
}

// send makes the trip. Each row of a result goes to row with the number of its
// statement, from 0; values are valid until row returns. It returns the last
// statement's tag.
func (t *trip) send(ctx context.Context, row func(statement int, values [][]byte)) (pgconn.CommandTag, error) {
	var tag pgconn.CommandTag
	results := t.conn.ExecBatch(ctx, &t.batch)
	for i := 0; results.NextResult(); i++ {
		result := results.ResultReader()
		for result.NextRow() {
			row(i, result.Values())
		}
		tag, _ = result.Close() // its error comes again
	}
	err := results.Close()
	switch codeOf(err) {
	case codeUndefinedStatement, codeDuplicateStatement:
		delete(t.conn.CustomData(), preparedKey)
		_ = t.conn.Close(ctx) // what is prepared on it is not what we know
	}
	return tag, err
}

// noRow is for trips that return nothing.
func noRow(int, [][]byte) {}

func int8Param(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

func int2Param(n uint8) []byte { return []byte{0, n} }

func int8Value(b []byte) int64 { return int64(binary.BigEndian.Uint64(b)) }

func boolValue(b []byte) bool { return len(b) == 1 && b[0] != 0 }
