package pgstore_test

import (
	"log"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testserver"
)

// exampleDatabase is a database for an example, which has no testing.TB.
func exampleDatabase() (url string, done func()) {
	tb := &exampleTB{}
	url = testserver.Postgres(tb)
	return url, func() {
		for _, f := range tb.cleanups {
			f()
		}
	}
}

// exampleTB is what of a testing.TB the server needs.
type exampleTB struct {
	testing.TB
	cleanups []func()
}

func (tb *exampleTB) Helper()                           {}
func (tb *exampleTB) Cleanup(f func())                  { tb.cleanups = append(tb.cleanups, f) }
func (tb *exampleTB) Fatal(args ...any)                 { log.Fatal(args...) }
func (tb *exampleTB) Fatalf(format string, args ...any) { log.Fatalf(format, args...) }
func (tb *exampleTB) Errorf(format string, args ...any) { log.Printf(format, args...) }
