package testserver

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// RedisVariable names the environment variable with the URL of a Redis server,
// 7.0 or newer.
const RedisVariable = "RETRYSAFE_REDIS_URL"

// LaunchRedis starts a Redis server that it finds on the machine. Each setting
// is a line of redis.conf, such as "appendonly yes". Unless the settings say
// otherwise, it keeps its data in memory alone and evicts nothing. The caller
// closes the server. The error is [ErrNotInstalled] where the machine has
// none.
func LaunchRedis(settings ...string) (*Server, error) {
	program, err := findRedis()
	if err != nil {
		return nil, err
	}
	return launch(redis(program, settings))
}

func redis(program string, settings []string) kind {
	return kind{
		name:    "redis",
		prepare: func(string) error { return nil },
		command: func(folder string, port int) []string {
			command := []string{program, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", folder,
				"--daemonize", "no", "--save", "", "--maxmemory-policy", "noeviction"}
			for _, setting := range settings {
				words := strings.Fields(setting)
				command = append(append(command, "--"+words[0]), words[1:]...)
			}
			return command
		},
		url:   func(port int) string { return "redis://" + address(port) },
		ready: redisReady,
		stop:  "TERM",
		kill:  "KILL",
	}
}

func redisReady(ctx context.Context, folder string, port int) error {
	if _, err := askRedis(ctx, port, "PING"); err != nil { // refused while it loads its data
		return err
	}
	serves, err := redisSetting(ctx, port, "dir")
	if err != nil {
		return err
	}
	return sameFolder(serves, folder)
}

// askRedis sends one command on a connection of its own and returns the reply.
func askRedis(ctx context.Context, port int, command string) ([]string, error) {
	conn, err := dialRedis(ctx, port)
	if err != nil {
		return nil, err
	}
	defer conn.close()
	return conn.do(command)
}

// redisSetting returns the value of one of a server's settings.
func redisSetting(ctx context.Context, port int, name string) (string, error) {
	reply, err := askRedis(ctx, port, "CONFIG GET "+name)
	if err != nil {
		return "", err
	}
	if len(reply) != 2 {
		return "", fmt.Errorf("CONFIG GET %s: answered %q", name, reply)
	}
	return reply[1], nil
}
