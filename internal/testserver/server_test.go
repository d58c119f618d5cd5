package testserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// eventually waits for a condition, far longer than it takes.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(startTimeout); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, startTimeout)
		}
	}
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func query(t *testing.T, url, statement string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var answer string
	if err := conn.QueryRow(t.Context(), statement).Scan(&answer); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return answer
}

func execute(t *testing.T, url, statement string) {
	t.Helper()
	if err := onServer(url, statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func TestPostgresGivesEachTestADatabaseOfItsOwn(t *testing.T) {
	first, second := Postgres(t), Postgres(t)
	execute(t, first, "CREATE TABLE mine (n int)")
	execute(t, second, "CREATE TABLE mine (n int)")
}

func TestPostgresDropsADatabaseThatIsStillConnectedTo(t *testing.T) {
	var url string
	t.Run("test", func(t *testing.T) {
		url = Postgres(t)
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close(context.Background()) })
	})
	if conn, err := pgx.Connect(t.Context(), url); err == nil {
		conn.Close(context.Background())
		t.Error("the database outlived its test")
	}
}

func TestAPostgresServerKeepsItsDataOverStopAndKill(t *testing.T) {
	server := StartPostgres(t)
	url := server.URL()
	if got := query(t, url, "SELECT current_setting('fsync')"); got != "on" {
		t.Errorf("fsync is %s, want on", got)
	}
	execute(t, url, "CREATE TABLE written (word text)")
	execute(t, url, "INSERT INTO written VALUES ('before the stop')")
	for _, end := range []func() error{server.Stop, server.Kill} {
		pid := server.process.pid
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if alive(pid) {
			t.Error("the server still runs")
		}
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		if got := query(t, url, "SELECT word FROM written"); got != "before the stop" {
			t.Errorf("read %q, want what was written", got)
		}
		if server.URL() != url {
			t.Error("the server moved")
		}
	}
}

func TestARedisServerStartsAgainAtItsPort(t *testing.T) {
	server := StartRedis(t, "appendonly yes", "appendfsync always")
	if _, err := askRedis(t.Context(), server.port, "SET word written"); err != nil {
		t.Fatal(err)
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if conn, err := net.Dial("tcp", server.Addr()); err == nil {
		conn.Close()
		t.Error("the server still answers")
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	if got, err := askRedis(t.Context(), server.port, "GET word"); err != nil || got[0] != "written" {
		t.Errorf("read %q and %v, want what was written", got, err)
	}
}

func TestARedisClusterServesEverySlotFromEveryNode(t *testing.T) {
	cluster := StartRedisCluster(t)
	owners := make(map[string]bool)
	for i := range 60 {
		_, err := askRedis(t.Context(), cluster.Nodes[0].port, fmt.Sprintf("SET key%d word", i))
		if err == nil {
			owners["here"] = true
		} else if _, to, moved := strings.Cut(err.Error(), "MOVED "); moved {
			owners[strings.Fields(to)[1]] = true
		} else {
			t.Fatal(err)
		}
	}
	if len(owners) != 3 {
		t.Errorf("60 keys live on %d masters, want 3: %v", len(owners), owners)
	}
}

func TestAServerThatCannotStartSaysWhy(t *testing.T) {
	_, err := LaunchPostgres("no_such_setting=1")
	if err == nil || !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("PostgreSQL: error %v, want one that holds the log", err)
	}
	_, err = LaunchRedis("no-such-setting 1")
	if err == nil || !strings.Contains(err.Error(), "no-such-setting") {
		t.Errorf("Redis: error %v, want one that holds the log", err)
	}
}

func TestAClosedServerIsGoneForGood(t *testing.T) {
	server, err := LaunchRedis()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := server.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(server.folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folder: %v, want none", err)
	}
	if err := server.Start(); err == nil {
		t.Error("it started again")
	}
}

func TestAKilledProcessLeavesNoServerBehind(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	process := exec.Command(program)
	process.Env = append(os.Environ(), childVariable+"=1")
	output, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	var pids []int
	var folders []string
	lines := bufio.NewScanner(output)
	for len(pids) < 2 && lines.Scan() {
		var pid int
		var folder string
		if _, err := fmt.Sscan(lines.Text(), &pid, &folder); err != nil {
			t.Errorf("the process said %q", lines.Text())
			break
		}
		pids, folders = append(pids, pid), append(folders, folder)
	}
	if err := process.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = process.Wait() // it was killed
	if len(pids) != 2 {
		t.Fatal("the process did not start its servers")
	}
	for i, pid := range pids {
		eventually(t, "the server ends", func() bool { return !alive(pid) })
		eventually(t, "its folder goes", func() bool {
			_, err := os.Stat(folders[i])
			return errors.Is(err, os.ErrNotExist)
		})
	}
}

func TestAMissingServerIsNamedWithItsCure(t *testing.T) {
	missing := notInstalled{variable: RedisVariable, server: "server", install: "Redis"}
	err := error(missing)
	if !errors.Is(err, ErrNotInstalled) {
		t.Error("it is not ErrNotInstalled")
	}
	if want := "testserver: set RETRYSAFE_REDIS_URL to the URL of a server, or install Redis"; err.Error() != want {
		t.Errorf("it says %q, want %q", err, want)
	}
	if want := "testserver: this test starts and stops a server of its own: install Redis"; missing.alone() != want {
		t.Errorf("it says %q, want %q", missing.alone(), want)
	}
}

func TestTheNewestPostgresIsTheHighestNumber(t *testing.T) {
	if versionIn("/usr/lib/postgresql/9/bin") >= versionIn("/usr/lib/postgresql/15/bin") {
		t.Error("9 is newer than 15")
	}
}
