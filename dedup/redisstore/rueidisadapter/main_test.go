package rueidisadapter_test

import (
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/retrysafe/retrysafe/internal/testserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// exampleServer is for the example, which has no test to fail.
var exampleServer = sync.OnceValue(func() string {
	server, err := testserver.LaunchRedis()
	if err != nil {
		return err.Error() // which is no URL, and is shown
	}
	return server.URL()
})

func exampleURL() string {
	if url := os.Getenv(testserver.RedisVariable); url != "" {
		return url
	}
	return exampleServer()
}
