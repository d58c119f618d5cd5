package pgstore_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/tracelog"

	"github.com/retrysafe/retrysafe/dedup"
)

// TestTracersSeeNoKey runs everything under the most talkative tracer of pgx,
// with three ways to print what it is given.
func TestTracersSeeNoKey(t *testing.T) {
	db := newDatabase(t)
	for _, mode := range modes {
		var log syncBuffer
		text, json := slog.New(slog.NewTextHandler(&log, nil)), slog.New(slog.NewJSONHandler(&log, nil))
		tracer := &tracelog.TraceLog{LogLevel: tracelog.LogLevelTrace, Logger: tracelog.LoggerFunc(
			func(ctx context.Context, _ tracelog.LogLevel, msg string, data map[string]any) {
				for k, v := range data {
					text.InfoContext(ctx, msg, k, v)
					json.InfoContext(ctx, msg, k, v)
					fmt.Fprintf(&log, "%v %+v %#v %s\n", v, v, v, v)
				}
			})}
		pool := db.pool(withMode(mode), func(c *pgxpool.Config) { c.ConnConfig.Tracer = tracer })
		key := dedup.Key{Scope: "the-scope", Method: "/test.v1.Test/Do", ID: "the-key-" + unique()}
		record := []byte("the-record")
		s, l := db.store(pool), db.leased(pool)
		for _, store := range []dedup.Store{s, l} {
			claim := db.claim(t.Context(), store, request(key))
			db.must(claim.Complete(t.Context(), recorded(string(record))))
			db.wantState(store, key, dedup.Completed)
		}
		db.must(l.Wait(t.Context(), key))
		batch := db.markerBatch(key)
		batch.Key.Method, batch.Record = "/test.v1.Test/Once", record
		batch.Statements = &pgx.Batch{}
		batch.Statements.Queue("SELECT 1")
		for range 2 {
			_, err := s.Once(t.Context(), batch)
			db.must(err)
		}
		printed := log.String()
		if printed == "" {
			t.Fatal("the tracer printed nothing")
		}
		for _, secret := range []string{"the-scope", key.ID, string(record)} {
			for _, form := range []string{secret, hex.EncodeToString([]byte(secret)), fmt.Sprint([]byte(secret))[1:10]} {
				if i := strings.Index(printed, form); i >= 0 {
					t.Errorf("%v: %q was printed: ...%s", mode, form, bytes.ToValidUTF8([]byte(printed[max(0, i-200):i+20]), nil))
				}
			}
		}
	}
}
