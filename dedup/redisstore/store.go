package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/retrysafe/retrysafe/dedup"
)

// Store is a [dedup.Store] in Redis. It wakes those who wait, and is safe for
// concurrent use, by many processes on one Redis.
type Store struct {
	driver   Driver
	prefix   string
	listener *listener
	close    func() error // of what [Open] opened
}

var (
	_ dedup.Store  = (*Store)(nil)
	_ dedup.Waiter = (*Store)(nil)
)

// Open connects to the Redis server at a URL, such as
// redis://user:password@localhost:6379/0 or rediss:// for TLS, and returns a
// store in it, once the server has been found fit. Close closes the
// connections. For Sentinel, Cluster and more settings use [New].
func Open(ctx context.Context, url string, opts ...Option) (*Store, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, errors.New("redisstore: Open: the URL is not one such as redis://localhost:6379/0") // it may hold a password
	}
	options.ContextTimeoutEnabled = true
	client := redis.NewClient(options)
	s, err := New(ctx, client, opts...)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	s.close = sync.OnceValue(client.Close)
	return s, nil
}

// New returns a store on a client of go-redis, once each master has been found
// fit. The client stays the caller's to close, after the store.
func New(ctx context.Context, client Client, opts ...Option) (*Store, error) {
	if client == nil {
		return NewWithDriver(ctx, nil, opts...)
	}
	return NewWithDriver(ctx, goRedis{client}, opts...)
}

// NewWithDriver is [New] for any other client.
func NewWithDriver(ctx context.Context, driver Driver, opts ...Option) (*Store, error) {
	c, err := newConfig(opts)
	if driver == nil {
		err = errors.Join(errors.New("redisstore: New: the client is nil"), err)
	}
	if err != nil {
		return nil, err
	}
	if err := checkServers(ctx, driver); err != nil {
		return nil, err
	}
	return &Store{
		driver:   driver,
		prefix:   c.prefix,
		listener: newListener(driver, c.prefix+"wake", c.logger),
		close:    func() error { return nil },
	}, nil
}

// Promise returns [dedup.OneAtATime].
func (s *Store) Promise() dedup.Promise { return dedup.OneAtATime }

// Close stops listening and wakes those who wait. Where [Open] made the store
// it closes the connections and returns their error, otherwise nil. Claims
// that are open stay until their leases end. Closing again does nothing.
func (s *Store) Close() error {
	s.listener.close()
	if err := s.close(); err != nil {
		return fmt.Errorf("redisstore: close: %w", err)
	}
	return nil
}
