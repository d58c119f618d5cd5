package sqlitestore

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain is also the entry of the processes that tests start: see child_test.go.
func TestMain(m *testing.M) {
	if job := os.Getenv(childJob); job != "" {
		os.Exit(runChild(job))
	}
	goleak.VerifyTestMain(m)
}
