// Package testserver gives tests real PostgreSQL and Redis servers.
//
// [Postgres] and [Redis] answer with the servers that RETRYSAFE_POSTGRES_URL
// and RETRYSAFE_REDIS_URL name. Where a variable is not set, the first test of
// a process that asks starts the server that it finds on the machine, and all
// tests of the process share it. Where there is none either, the test fails
// and says what to set or to install. No test is ever skipped.
//
// [StartPostgres], [StartRedis] and [StartRedisCluster] start servers that
// belong to one test, which may stop, kill and restart them.
//
// The command in the folder with does the same for a whole run, and installs
// what is missing where it may:
//
//	go run ./internal/testserver/with go test ./...
//
// # Servers
//
// A server listens on 127.0.0.1 alone, at a port that was free, and keeps its
// data in a temporary folder of its own. PostgreSQL trusts every connection
// and has no Unix socket. It refuses to run as root, so where the tests do,
// servers run as the user postgres or nobody.
//
// The shared PostgreSQL server runs with fsync=off: its data ends with the
// tests. One that a test starts for itself runs with fsync=on unless the test
// says otherwise, as servers do whose crashes matter or whose speed is
// measured.
//
// # What is left behind
//
// Nothing. Each server has a shell process beside it that holds the reading
// end of a pipe. When the writing end closes, because a test ended its server
// or because the test process died, however it died, the shell stops the
// server and removes its folder.
package testserver
