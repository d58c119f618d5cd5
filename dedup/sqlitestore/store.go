package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"

	"github.com/retrysafe/retrysafe/dedup"
)

var (
	// ErrClosed: the store has been closed.
	ErrClosed = errors.New("sqlitestore: the store is closed")
	// ErrBusy: the writer was in use, here or by another process, for as long
	// as the caller could wait. Nothing was changed.
	ErrBusy = errors.New("sqlitestore: the writer is busy")
)

// Store is a [dedup.Store] in an SQLite database. Make one with [Open] or
// [New]. It is safe for concurrent use.
type Store struct {
	config
	db       *sql.DB
	owned    bool        // db is the store's to close
	file     fs.FileInfo // which file it is
	reader   *reader
	sessions *sql.DB
	turns    turns
	stats    counters

	// For whoever has the turn.
	writer    *writer   // nil until it is opened again
	group     *group    // the open transaction, or nil
	fence     uint64    // the last that was given out
	contended time.Time // when another process was seen to want the file
	crowded   bool      // the last commit served several

	mu     sync.Mutex
	holds  map[dedup.Key]*hold
	active *claim // the one that has the turn, or nil
	closed bool

	stop  chan struct{}
	life  context.Context // ends when stop is closed
	end   context.CancelFunc
	tasks sync.WaitGroup
	once  sync.Once
	err   error // Close's
}

var (
	_ dedup.Store  = (*Store)(nil)
	_ dedup.Waiter = (*Store)(nil)
)

// Open opens the database file at path, creates it where it does not exist,
// and creates and migrates the store's tables in it as [Migrate] does. The
// path is a file's name, not a URI. Connections wait up to 5 s for each other,
// commit with synchronous = FULL, and enforce foreign keys. [Store.Close]
// closes the database.
func Open(ctx context.Context, path string, opts ...Option) (*Store, error) {
	c, err := newConfig(opts)
	if err := errors.Join(err, validPath(path)); err != nil {
		return nil, err
	}
	db, err := driver.Open(path, setup)
	if err != nil {
		return nil, fmt.Errorf("sqlitestore: open: %w", err)
	}
	db.SetMaxOpenConns(c.readers + 1)
	db.SetMaxIdleConns(c.readers + 1)
	s, err := openStore(ctx, db, c)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	s.owned = true
	return s, nil
}

func openStore(ctx context.Context, db *sql.DB, c config) (*Store, error) {
	if err := Migrate(ctx, db); err != nil {
		return nil, err
	}
	return newStore(ctx, db, c)
}

// setup prepares a connection of a database that the store has opened.
func setup(conn *sqlite3.Conn) error {
	if err := conn.BusyTimeout(5 * time.Second); err != nil {
		return err
	}
	return conn.Exec(`PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON`)
}

func validPath(path string) error {
	switch {
	case path == "":
		return errors.New("sqlitestore: open: the path is empty")
	case path == ":memory:":
		return errors.New("sqlitestore: open: a database in memory is gone with its connection: use a file, or dedup.NewMemory")
	case strings.HasPrefix(path, "file:"):
		return errors.New("sqlitestore: open: the path is a URI: give the file's name, or open the database and use New")
	case strings.ContainsRune(path, 0):
		return errors.New("sqlitestore: open: the path has a zero byte in it")
	}
	return nil
}

// New makes a store in a database that the caller has opened, with the driver
// of github.com/ncruces/go-sqlite3, and migrated with [Migrate]. The store
// takes one of db's connections to write with, on which it sets synchronous =
// FULL and otherwise keeps the caller's settings; so db must be allowed two
// connections at least, and as many more as shall look up outcomes at once.
// [Store.Close] leaves db open, and comes before db's own.
func New(ctx context.Context, db *sql.DB, opts ...Option) (*Store, error) {
	c, err := newConfig(opts)
	switch {
	case db == nil:
		err = errors.Join(err, errors.New("sqlitestore: new: db is nil"))
	case db.Stats().MaxOpenConnections == 1:
		err = errors.Join(err, errors.New("sqlitestore: new: db is limited to one connection, two are needed"))
	}
	if err != nil {
		return nil, err
	}
	return newStore(ctx, db, c)
}

func newStore(ctx context.Context, db *sql.DB, c config) (*Store, error) {
	w, err := openWriter(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("sqlitestore: open the writer: %w", err)
	}
	file, err := w.file(ctx)
	if err != nil {
		w.close()
		return nil, fmt.Errorf("sqlitestore: open the writer: %w", err)
	}
	r, err := openReader(ctx, db)
	if err != nil {
		w.close()
		return nil, fmt.Errorf("sqlitestore: open a reader: %w", err)
	}
	s := &Store{
		config:   c,
		db:       db,
		file:     file,
		reader:   r,
		sessions: sql.OpenDB(sessions{db.Driver()}),
		writer:   w,
		holds:    make(map[dedup.Key]*hold),
		stop:     make(chan struct{}),
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.tasks.Go(s.sweepLoop)
	return s, nil
}

// file says which file the database is in.
func (w *writer) file(ctx context.Context) (fs.FileInfo, error) {
	var path string
	err := w.conn.QueryRowContext(ctx, `SELECT file FROM pragma_database_list WHERE name = 'main'`).Scan(&path)
	if err != nil {
		return nil, err
	}
	return os.Stat(path)
}

// DB returns the database, to read from and to write to outside of handlers.
// A handler that writes through it waits for the lock that it holds itself.
func (s *Store) DB() *sql.DB { return s.db }

// Promise returns [dedup.ExactlyOnce].
func (s *Store) Promise() dedup.Promise { return dedup.ExactlyOnce }

// Close commits what is recorded and ends the store. An execution that is
// still under way is undone and cannot be completed. Callers that wait get
// [ErrClosed]. A database that [Open] opened is closed; one that was given to
// [New] stays open. A second Close waits for the first, and returns the same.
func (s *Store) Close() error {
	s.once.Do(func() { s.err = s.close() })
	return s.err
}

func (s *Store) close() error {
	close(s.stop)
	s.end()
	idle := s.turns.close()
	if c := s.setClosed(); c != nil {
		c.abort(fmt.Errorf("%w: %w", dedup.ErrLeaseLost, ErrClosed))
	}
	<-idle
	s.tasks.Wait()
	s.dropWriter()
	err := errors.Join(s.sessions.Close(), s.reader.close())
	if s.owned {
		err = errors.Join(err, s.db.Close())
	}
	return err
}

// setActive says false where the store was closed meanwhile.
func (s *Store) setActive(c *claim) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.active = c
	}
	return !s.closed
}

// setClosed returns the claim that is still to be settled.
func (s *Store) setClosed() *claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return s.active
}

func (s *Store) clearActive(held time.Duration) {
	s.stats.heldFor(held)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active = nil
}

// dropWriter throws the writer's connection away. The next transaction opens
// another. The caller has the turn, or is the last.
func (s *Store) dropWriter() {
	if s.writer != nil {
		s.writer.close()
		s.writer = nil
	}
}
