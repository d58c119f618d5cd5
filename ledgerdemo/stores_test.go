package main

import (
	"context"
	"os"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/retrysafe/retrysafe/internal/testserver"
)

var (
	keysOnPostgres = append(slices.Clone(keysOfAll), "replicas", "session_terminations")
	keysInRedis    = append(slices.Clone(keysOfAll), "replicas", "unknown_outcomes")
)

// short are the flags of a run on several servers that tests can wait for.
var short = []string{"-kills", "2", "-replicas", "3"}

func TestOnPostgresEachDebitIsMadeOnce(t *testing.T) {
	url := testserver.Postgres(t)
	f, status := demonstrateWith(t, keysOnPostgres, append(short, "-store", url, "-terminations", "2")...)
	if status != 0 || !f.OK {
		t.Fatalf("status %d, ok %t", status, f.OK)
	}
	if f.Operations != 200 || f.Executions != 200 || f.Doubled != 0 || f.Lost != 0 || f.Expected != f.Found {
		t.Errorf("%+v", f)
	}
	if f.Retries == 0 || f.Replays == 0 || f.Kills != 2 || f.Terminations != 2 || f.Replicas != 3 {
		t.Errorf("nothing was put to the test: %+v", f)
	}
	wantNoSchema(t, url)
}

func TestOnPostgresWithoutDedupDebitsAreDoubled(t *testing.T) {
	url := testserver.Postgres(t)
	f, status := demonstrateWith(t, keysOnPostgres, append(short, "-store", url, "-terminations", "2", "-without", "dedup")...)
	if status != 1 || f.OK {
		t.Errorf("status %d, ok %t", status, f.OK)
	}
	if f.Doubled == 0 || f.Executions <= f.Operations || f.Found >= f.Expected || f.Replays != 0 {
		t.Errorf("%+v", f)
	}
	wantNoSchema(t, url)
}

func TestInRedisADebitIsDoubledOnlyWhereNobodyKnew(t *testing.T) {
	tests := []struct {
		name  string
		flags func(*testing.T) []string
		keys  []string
	}{
		{"with the ledger in a file", func(*testing.T) []string { return nil }, keysInRedis},
		{"with the ledger in PostgreSQL", func(t *testing.T) []string {
			return []string{"-ledger", testserver.Postgres(t), "-terminations", "2"}
		}, append(slices.Clone(keysInRedis), "session_terminations")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			url := testserver.Redis(t)
			f, status := demonstrateWith(t, tt.keys, slices.Concat(short, []string{"-store", url}, tt.flags(t))...)
			if status != 0 || !f.OK {
				t.Fatalf("status %d, ok %t", status, f.OK)
			}
			if again := f.Executions - f.Operations; again < f.Doubled || again > f.Unknown || f.Lost != 0 {
				t.Errorf("%+v", f)
			}
			if (f.Found == f.Expected) != (f.Doubled == 0) || f.Replays == 0 || f.Kills != 2 || f.Replicas != 3 {
				t.Errorf("%+v", f)
			}
			wantNoKeys(t, url)
		})
	}
}

func TestInRedisWithoutDedupDebitsAreDoubled(t *testing.T) {
	f, status := demonstrateWith(t, append(slices.Clone(keysOfAll), "replicas"), append(short, "-store", testserver.Redis(t), "-without", "dedup")...)
	if status != 1 || f.OK || f.Doubled == 0 {
		t.Errorf("status %d, %+v", status, f)
	}
}

func TestAnInterruptedDemonstrationLeavesNothingInServers(t *testing.T) {
	postgres, redis := testserver.Postgres(t), testserver.Redis(t)
	for _, flags := range [][]string{
		{"-store", postgres, "-terminations", "5000"},
		{"-store", redis, "-ledger", postgres},
	} {
		dir := ownTemp(t)
		cmd, addr := begin(t, append(flags, "-replicas", "1")...)
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // its exit status is looked at
		if code := cmd.ProcessState.ExitCode(); code != 1 {
			t.Errorf("it ended with status %d", code)
		}
		wantGone(t, addr)
		wantEmpty(t, dir)
		wantNoSchema(t, postgres)
		wantNoKeys(t, redis)
	}
}

// wantNoSchema wants none of a run's schemas left.
func wantNoSchema(t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	var left int
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'ledgerdemo%'`).Scan(&left); err != nil || left != 0 {
		t.Errorf("schemas left: %d, %v", left, err)
	}
}

// wantNoKeys wants none of a run's keys left.
func wantNoKeys(t *testing.T, url string) {
	t.Helper()
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	defer client.Close()
	found := client.Scan(t.Context(), 0, "ledgerdemo_*", 1000).Iterator()
	for found.Next(t.Context()) {
		t.Errorf("a key is left: %s", found.Val())
	}
	if err := found.Err(); err != nil {
		t.Error(err)
	}
}
