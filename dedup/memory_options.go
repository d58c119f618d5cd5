package dedup

// The defaults of the options of [NewMemory].
const (
	DefaultMaxKeys  = 1_000_000
	DefaultMaxBytes = 256 << 20
)

// MemoryOption configures [NewMemory]. What is not positive means the default.
type MemoryOption func(*memorySettings)

type memorySettings struct {
	maxKeys  int
	maxBytes int64
}

// WithMaxKeys bounds how many operations are remembered. Default: 1,000,000.
// Each takes some 200 bytes beside its key and record.
func WithMaxKeys(n int) MemoryOption {
	return func(s *memorySettings) { s.maxKeys = n }
}

// WithMaxBytes bounds the bytes of all keys and records together. Default:
// 256 MiB. A record that is larger than that alone is refused with
// [ErrTooLarge].
func WithMaxBytes(n int64) MemoryOption {
	return func(s *memorySettings) { s.maxBytes = n }
}

func (s *memorySettings) setDefaults() {
	if s.maxKeys <= 0 {
		s.maxKeys = DefaultMaxKeys
	}
	if s.maxBytes <= 0 {
		s.maxBytes = DefaultMaxBytes
	}
}
