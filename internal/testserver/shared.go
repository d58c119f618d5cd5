package testserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// The servers that this process started for all its tests. They end with it.
var (
	sharedPostgres = sync.OnceValues(LaunchSharedPostgres)
	sharedRedis    = sync.OnceValues(func() (*Server, error) { return LaunchRedis() })
)

// LaunchSharedPostgres is [LaunchPostgres] with the settings of a server that
// many tests share and whose data nobody needs after them.
func LaunchSharedPostgres() (*Server, error) {
	return LaunchPostgres("fsync=off", "full_page_writes=off")
}

// Postgres returns the URL of an empty database on the shared PostgreSQL
// server. The database is the test's own and is dropped when it ends.
func Postgres(tb testing.TB) string {
	tb.Helper()
	server := os.Getenv(PostgresVariable)
	if server == "" {
		started, err := sharedPostgres()
		if err != nil {
			tb.Fatal(err)
		}
		server = started.URL()
	}
	return newDatabase(tb, server)
}

// newDatabase makes a database for the test and returns its URL.
func newDatabase(tb testing.TB, server string) string {
	tb.Helper()
	database, err := url.Parse(server)
	if err != nil || database.Host == "" { // the error would show a password
		tb.Fatalf("testserver: %s is not a URL such as postgres://user:password@host:5432/postgres", PostgresVariable)
	}
	name := "retrysafe_test_" + strings.ToLower(rand.Text())
	database.Path = "/" + name
	// template0: the one template that nobody can be connected to.
	if err := onServer(server, "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		tb.Fatalf("testserver: make a database for the test: %v", err)
	}
	tb.Cleanup(func() {
		if err := onServer(server, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			tb.Errorf("testserver: drop the test's database: %v", err)
		}
	})
	return database.String()
}

// onServer executes one statement on a connection of its own.
func onServer(server, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, statement)
	return err
}

// Redis returns the URL of the shared Redis server. Other tests use it at the
// same time, so a test works on keys that nobody else names.
func Redis(tb testing.TB) string {
	tb.Helper()
	if server := os.Getenv(RedisVariable); server != "" {
		return server
	}
	started, err := sharedRedis()
	if err != nil {
		tb.Fatal(err)
	}
	return started.URL()
}

// StartPostgres starts a PostgreSQL server for this test alone, with fsync on.
// Each setting is a line of postgresql.conf, such as "fsync=off".
func StartPostgres(tb testing.TB, settings ...string) *Server {
	tb.Helper()
	return own(tb, func() (*Server, error) { return LaunchPostgres(settings...) })
}

// StartRedis starts a Redis server for this test alone. Each setting is a line
// of redis.conf, such as "appendonly yes".
func StartRedis(tb testing.TB, settings ...string) *Server {
	tb.Helper()
	return own(tb, func() (*Server, error) { return LaunchRedis(settings...) })
}

// own launches a server that ends with the test.
func own(tb testing.TB, launch func() (*Server, error)) *Server {
	tb.Helper()
	server, err := launch()
	var missing notInstalled
	if errors.As(err, &missing) {
		tb.Fatal(missing.alone())
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := server.Close(); err != nil {
			tb.Error(err)
		}
	})
	return server
}
