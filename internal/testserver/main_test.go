package testserver

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// childVariable makes the test binary a process that starts one server of each
// kind, says where, and never ends by itself.
const childVariable = "TESTSERVER_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		child()
	}
	goleak.VerifyTestMain(m)
}

func child() {
	for _, launch := range []func(...string) (*Server, error){LaunchPostgres, LaunchRedis} {
		server, err := launch()
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(server.process.pid, server.folder)
	}
	time.Sleep(time.Hour)
}
