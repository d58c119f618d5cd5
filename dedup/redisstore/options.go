package redisstore

import (
	"errors"
	"log/slog"
	"strings"
)

// DefaultPrefix begins the names of all keys, and of the channel.
const DefaultPrefix = "retrysafe:"

// Option configures a store. Mistakes are all reported together when the store
// is made, each by its option's name.
type Option func(*config)

type config struct {
	prefix string
	logger *slog.Logger
}

// WithPrefix sets what the names of all keys begin with, for several stores in
// one Redis. It has no braces, which would make it a hash tag. Default:
// "retrysafe:".
func WithPrefix(prefix string) Option {
	return func(c *config) { c.prefix = prefix }
}

// WithLogger sets where the store logs what no caller is told: that it has
// lost the connection that it listens on. Default: nowhere.
func WithLogger(l *slog.Logger) Option {
	return func(c *config) { c.logger = l }
}

func newConfig(opts []Option) (config, error) {
	c := config{prefix: DefaultPrefix}
	for _, opt := range opts {
		if opt != nil {
			opt(&c)
		}
	}
	if c.logger == nil {
		c.logger = slog.New(slog.DiscardHandler)
	}
	var err error
	if c.prefix == "" {
		err = errors.New("redisstore: WithPrefix: the prefix is empty")
	}
	if strings.ContainsAny(c.prefix, "{}") {
		err = errors.New("redisstore: WithPrefix: the prefix has a brace, which would make it a hash tag")
	}
	return c, err
}
