package dedup

import "context"

// Memory is a [Store] in the memory of one process.
type Memory struct{}

// MemoryOption configures [NewMemory].
type MemoryOption func(*memorySettings)

type memorySettings struct {
	maxKeys  int
	maxBytes int64
}

// WithMaxKeys bounds how many operations are remembered. Default, and what
// zero or less means: 1,000,000.
func WithMaxKeys(n int) MemoryOption { return func(s *memorySettings) { s.maxKeys = n } }

// WithMaxBytes bounds the bytes of keys and records. Default, and what zero or
// less means: 256 MiB.
func WithMaxBytes(n int64) MemoryOption { return func(s *memorySettings) { s.maxBytes = n } }

// NewMemory returns an empty store.
func NewMemory(opts ...MemoryOption) *Memory { return &Memory{} }

// Claim implements [Store].
func (m *Memory) Claim(ctx context.Context, req ClaimRequest) (Answer, error) {
	return Answer{}, ErrFull
}

// Promise returns [OneAtATime].
func (m *Memory) Promise() Promise { return OneAtATime }
