package torture

import (
	"bytes"
	"sync"
)

// watch is the log of all servers of a world. It looks for what must not be in
// it, and keeps the end of it.
type watch struct {
	secret []byte

	mu    sync.Mutex
	tail  []byte
	found int
	bytes int
}

const tailSize = 16 << 10

// Write implements io.Writer. It never fails.
func (w *watch) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bytes += len(p)
	// What was cut in two by the writes is found too, and nothing twice.
	overlap := max(0, len(w.tail)-len(w.secret)+1)
	w.found += bytes.Count(append(bytes.Clone(w.tail[overlap:]), p...), w.secret)
	w.tail = append(w.tail, p...)
	w.tail = w.tail[max(0, len(w.tail)-tailSize):]
	return len(p), nil
}

func (w *watch) report() (found, size int, tail string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.found, w.bytes, string(w.tail)
}
