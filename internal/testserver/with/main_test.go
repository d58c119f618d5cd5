package main

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testserver"
)

func TestTheCommandsStatusIsPassedOn(t *testing.T) {
	for _, test := range []struct {
		name, script string
		want         int
	}{
		{"success", "exit 0", 0},
		{"failure", "exit 7", 7},
		{"death by a signal", "kill -TERM $$", 128 + int(syscall.SIGTERM)},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := run(nil, []string{"sh", "-c", test.script})
			if got != test.want || err != nil {
				t.Errorf("status %d and error %v, want %d", got, err, test.want)
			}
		})
	}
}

func TestASignalReachesTheCommand(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGTERM
	got, err := execute([]string{"sleep", "60"}, nil, signals)
	if want := 128 + int(syscall.SIGTERM); got != want || err != nil {
		t.Errorf("status %d and error %v, want %d", got, err, want)
	}
}

func TestTheCommandFindsTheServersAndNobodyElseDoesAfterIt(t *testing.T) {
	t.Setenv(testserver.RedisVariable, "")
	var started *testserver.Server
	redis := needs(false)[1]
	launch := redis.launch
	redis.launch = func() (_ *testserver.Server, err error) {
		started, err = launch()
		return started, err
	}
	got, err := run([]need{redis}, []string{"sh", "-c", `[ "${RETRYSAFE_REDIS_URL#redis://127.0.0.1:}" != "$RETRYSAFE_REDIS_URL" ]`})
	if got != 0 || err != nil {
		t.Errorf("status %d and error %v, want 0", got, err)
	}
	if err := started.Start(); err == nil {
		t.Error("the server was left open")
	}
}

func TestAServerThatIsNamedIsNotStarted(t *testing.T) {
	t.Setenv(testserver.RedisVariable, "redis://elsewhere")
	redis := needs(false)[1]
	redis.launch = func() (*testserver.Server, error) { return nil, errors.New("it was started") }
	got, err := run([]need{redis}, []string{"sh", "-c", `[ "$RETRYSAFE_REDIS_URL" = redis://elsewhere ]`})
	if got != 0 || err != nil {
		t.Errorf("status %d and error %v, want 0", got, err)
	}
}

func TestAServerThatCannotBeHadIsNamedAndNothingRuns(t *testing.T) {
	t.Setenv(testserver.RedisVariable, "")
	t.Setenv("PATH", t.TempDir()) // no redis-server, no apt-get
	got, err := run(needs(false)[1:], []string{"/bin/sh", "-c", "exit 0"})
	if got != 1 || err == nil || !strings.Contains(err.Error(), "set RETRYSAFE_REDIS_URL to") {
		t.Errorf("status %d and error %v, want 1 and what to set", got, err)
	}
}
