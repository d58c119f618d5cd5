package sqlitestore

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain is also where the processes begin that tests start.
func TestMain(m *testing.M) {
	if job := os.Getenv(childJob); job != "" {
		os.Exit(runChild(job))
	}
	goleak.VerifyTestMain(m)
}
