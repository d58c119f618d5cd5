package testserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ErrNotInstalled is what a server that is not on the machine cannot be
// started for. Its message says what to do.
var ErrNotInstalled = errors.New("testserver: the server is not installed")

// postgresFolders are where distributions keep the programs of each version,
// beside the PATH.
var postgresFolders = []string{
	"/usr/lib/postgresql/*/bin",          // Debian, Ubuntu
	"/usr/pgsql-*/bin",                   // PostgreSQL's own RPMs
	"/opt/homebrew/opt/postgresql@*/bin", // Homebrew
	"/usr/local/opt/postgresql@*/bin",
}

// findPostgres returns the folder that initdb and postgres are in.
func findPostgres() (string, error) {
	if program, err := exec.LookPath("initdb"); err == nil {
		if program, err = filepath.EvalSymlinks(program); err == nil && hasPostgres(filepath.Dir(program)) {
			return filepath.Dir(program), nil
		}
	}
	var found []string
	for _, pattern := range postgresFolders {
		folders, _ := filepath.Glob(pattern) // its one error is a malformed pattern
		found = append(found, folders...)
	}
	found = slices.DeleteFunc(found, func(folder string) bool { return !hasPostgres(folder) })
	if len(found) == 0 {
		return "", notInstalled{
			variable: PostgresVariable,
			server:   "PostgreSQL server whose user may create databases (postgres://user:password@host:5432/postgres)",
			install:  "PostgreSQL 15 or newer (Debian: apt-get install postgresql)",
		}
	}
	return slices.MaxFunc(found, func(a, b string) int { return versionIn(a) - versionIn(b) }), nil
}

func hasPostgres(folder string) bool {
	for _, program := range []string{"initdb", "postgres"} {
		if _, err := os.Stat(filepath.Join(folder, program)); err != nil {
			return false
		}
	}
	return true
}

// versionIn returns the first number in a path, or 0.
func versionIn(path string) int {
	digits := strings.FieldsFunc(path, func(r rune) bool { return r < '0' || r > '9' })
	if len(digits) == 0 {
		return 0
	}
	version, err := strconv.Atoi(digits[0])
	if err != nil {
		return 0
	}
	return version
}

// findRedis returns the path of redis-server.
func findRedis() (string, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return "", notInstalled{
			variable: RedisVariable,
			server:   "Redis server (redis://127.0.0.1:6379)",
			install:  "Redis 7.0 or newer (Debian: apt-get install redis-server)",
		}
	}
	return program, nil
}

// notInstalled is [ErrNotInstalled] in full.
type notInstalled struct{ variable, server, install string }

func (e notInstalled) Error() string {
	return fmt.Sprintf("testserver: set %s to the URL of a %s, or install %s", e.variable, e.server, e.install)
}

// alone says what a test needs that no server elsewhere can stand in for.
func (e notInstalled) alone() string {
	return "testserver: this test starts and stops a server of its own: install " + e.install
}

func (e notInstalled) Is(target error) bool { return target == ErrNotInstalled }
