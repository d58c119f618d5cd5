package testserver

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/jackc/pgx/v5"
)

// PostgresVariable names the environment variable with the URL of a PostgreSQL
// server whose user may create databases.
const PostgresVariable = "RETRYSAFE_POSTGRES_URL"

// LaunchPostgres starts a PostgreSQL server that it finds on the machine, with
// fsync on. Each setting is a line of postgresql.conf, such as "fsync=off".
// The caller closes the server. The error is [ErrNotInstalled] where the
// machine has none.
func LaunchPostgres(settings ...string) (*Server, error) {
	programs, err := findPostgres()
	if err != nil {
		return nil, err
	}
	return launch(postgres(programs, settings))
}

func postgres(programs string, settings []string) kind {
	return kind{
		name:    "postgres",
		prepare: func(folder string) error { return initdb(filepath.Join(programs, "initdb"), folder) },
		command: func(folder string, port int) []string {
			command := []string{filepath.Join(programs, "postgres"), "-D", data(folder),
				"-c", "listen_addresses=127.0.0.1", "-c", fmt.Sprintf("port=%d", port),
				"-c", "unix_socket_directories=", "-c", "max_connections=300"}
			for _, setting := range settings {
				command = append(command, "-c", setting)
			}
			return command
		},
		url:   postgresURL,
		ready: postgresReady,
		stop:  "INT",
		kill:  "QUIT",
	}
}

func postgresURL(port int) string {
	return "postgres://postgres@" + address(port) + "/postgres?sslmode=disable"
}

func data(folder string) string { return filepath.Join(folder, "data") }

// initdb makes a cluster. It need not reach the disk before the server does.
func initdb(program, folder string) error {
	command := exec.Command(program, "--pgdata="+data(folder), "--username=postgres", "--auth=trust",
		"--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions")
	command.Dir = folder
	command.SysProcAttr = attributes()
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, output)
	}
	return nil
}

func postgresReady(ctx context.Context, folder string, port int) error {
	conn, err := pgx.Connect(ctx, postgresURL(port))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var serves string
	if err := conn.QueryRow(ctx, "SELECT current_setting('data_directory')").Scan(&serves); err != nil {
		return err
	}
	return sameFolder(serves, data(folder))
}

// sameFolder finds out whether the server that answers is the one that was
// started.
func sameFolder(got, want string) error {
	gotPath, gotErr := filepath.EvalSymlinks(got)
	wantPath, wantErr := filepath.EvalSymlinks(want)
	if err := errors.Join(gotErr, wantErr); err != nil {
		return err
	}
	if gotPath != wantPath {
		return errors.New("another server answers at its port")
	}
	return nil
}
