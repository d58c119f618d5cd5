package redisstore_test

import (
	"crypto/rand"
	"os"
	"sync"

	"github.com/retrysafe/retrysafe/internal/testserver"
)

// exampleServer is for examples, which have no test to fail.
var exampleServer = sync.OnceValue(func() string {
	server, err := testserver.LaunchRedis()
	if err != nil {
		return err.Error() // which is shown as a URL that does not work
	}
	return server.URL()
})

func exampleURL() string {
	if url := os.Getenv(testserver.RedisVariable); url != "" {
		return url
	}
	return exampleServer()
}

func exampleID() string { return rand.Text() }
