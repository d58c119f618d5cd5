package dedup

import (
	"errors"
	"time"
)

// The defaults of the options of [NewCache].
const (
	DefaultCacheKeys  = 10_000
	DefaultCacheBytes = 32 << 20
	DefaultCacheTime  = 10 * time.Minute
)

// CacheOption configures [NewCache]. Zero always means the default; what is
// negative is an error of NewCache that names the option.
type CacheOption func(*cacheSettings)

type cacheSettings struct {
	keys  int
	bytes int64
	time  time.Duration
}

// WithCacheKeys bounds how many outcomes are kept. Default: 10,000. Each takes
// some 300 bytes beside its key and record. Where there is no room for another,
// the one that was not asked for the longest goes.
func WithCacheKeys(n int) CacheOption {
	return func(s *cacheSettings) { s.keys = n }
}

// WithCacheBytes bounds the bytes of all keys and records together. Default:
// 32 MiB. An outcome that is larger than that alone is not kept.
func WithCacheBytes(n int64) CacheOption {
	return func(s *cacheSettings) { s.bytes = n }
}

// WithCacheTime bounds how long an outcome is kept, where its retention does
// not end before. Default: 10 minutes: most repeats come soon.
func WithCacheTime(d time.Duration) CacheOption {
	return func(s *cacheSettings) { s.time = d }
}

func newCacheSettings(opts []CacheOption) (cacheSettings, error) {
	var s cacheSettings
	for _, opt := range opts {
		if opt != nil {
			opt(&s)
		}
	}
	err := errors.Join(
		orDefault("WithCacheKeys", &s.keys, DefaultCacheKeys),
		orDefault("WithCacheBytes", &s.bytes, DefaultCacheBytes),
		orDefault("WithCacheTime", &s.time, DefaultCacheTime),
	)
	return s, err
}
