package replicatest

import (
	"context"
	"crypto/rand"
	"os"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/retrysafe/retrysafe/dedup"
)

// TestMain is also where the replicas begin that are processes of their own.
func TestMain(m *testing.M) {
	if os.Getenv(jobVariable) != "" {
		os.Exit(runChild())
	}
	goredis.SetLogger(quiet{})
	goleak.VerifyTestMain(m)
}

// quiet keeps go-redis from telling what the tests do to its server.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// patience is how long a condition is waited for, far longer than it takes.
const patience = 60 * time.Second

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func bounded(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	tb.Cleanup(cancel)
	return ctx
}

func eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("%s: not within %v", what, patience)
		}
	}
}

func newOperation() dedup.Operation { return operation(rand.Text()) }

func operation(id string) dedup.Operation {
	return dedup.Operation{
		Key:         dedup.Key{Scope: "tenant", Method: "/replicatest.v1.Test/Do", ID: id},
		Fingerprint: dedup.FingerprintBytes([]byte("debit 5 EUR")),
	}
}

// forEach runs the test on a storage of each kind.
func forEach(t *testing.T, kinds []kind, test func(*testing.T, storage)) {
	for _, k := range kinds {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel() // most of the time goes into waiting
			test(t, newStorage(t, k))
		})
	}
}
