// Package sqlqueue is a queue of dead letters in an SQL table. Packages
// sqlitequeue and pgqueue say in which.
package sqlqueue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/retrysafe/retrysafe/interceptor/deadletter"
)

// SchemaVersion is the version of the table that this package reads and
// writes.
const SchemaVersion = 1

// Dialect is what differs between databases. Placeholders stand in statements
// in the order of their numbers: to SQLite "$2" is a name, not a number.
type Dialect struct {
	// Name is what errors begin with, such as "sqlitequeue".
	Name string
	// Schema makes the tables where they are not there, in one batch.
	Schema string
	// Lock keeps two migrations apart until their transaction ends; it may be
	// empty.
	Lock string
}

// Queue implements [deadletter.Queue] on db.
type Queue struct {
	db *sql.DB
	d  Dialect
}

var _ deadletter.Queue = (*Queue)(nil)

// New returns a queue on db. The caller closes db.
func New(db *sql.DB, d Dialect) *Queue { return &Queue{db: db, d: d} }

// Migrate makes the table where it is not there, and refuses one of another
// version. Several may run at once.
func (q *Queue) Migrate(ctx context.Context) error {
	tx, err := q.db.BeginTx(ctx, nil)
	if err != nil {
		return q.failed("migrate", err)
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing
	if q.d.Lock != "" {
		if _, err := tx.ExecContext(ctx, q.d.Lock); err != nil {
			return q.failed("migrate", err)
		}
	}
	if _, err := tx.ExecContext(ctx, q.d.Schema); err != nil {
		return q.failed("migrate", err)
	}
	var version int
	if err := tx.QueryRowContext(ctx, `SELECT max(version) FROM retrysafe_letters_schema`).Scan(&version); err != nil {
		return q.failed("migrate", err)
	}
	if version != SchemaVersion {
		return fmt.Errorf("%s: migrate: the table has schema version %d, this program knows %d", q.d.Name, version, SchemaVersion)
	}
	return q.failed("migrate", tx.Commit())
}

// Put implements [deadletter.Queue].
func (q *Queue) Put(ctx context.Context, letter *deadletter.Letter) error {
	body, err := q.encode(letter)
	if err != nil {
		return err
	}
	_, err = q.db.ExecContext(ctx,
		`INSERT INTO retrysafe_letters (id, letter) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING`, letter.GetId(), body)
	return q.failed("put", err)
}

// Get implements [deadletter.Queue].
func (q *Queue) Get(ctx context.Context, id string) (*deadletter.Letter, error) {
	var body []byte
	err := q.db.QueryRowContext(ctx, `SELECT letter FROM retrysafe_letters WHERE id = $1`, id).Scan(&body)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, q.failed("get", deadletter.ErrNotFound)
	}
	if err != nil {
		return nil, q.failed("get", err)
	}
	return q.decode(id, body)
}

// List implements [deadletter.Queue].
func (q *Queue) List(ctx context.Context, after string, limit int) ([]*deadletter.Letter, error) {
	rows, err := q.db.QueryContext(ctx,
		`SELECT id, letter FROM retrysafe_letters WHERE id > $1 ORDER BY id LIMIT $2`, after, max(limit, 0))
	if err != nil {
		return nil, q.failed("list", err)
	}
	defer func() { _ = rows.Close() }() // rows.Err tells
	var letters []*deadletter.Letter
	for rows.Next() {
		var id string
		var body []byte
		if err := rows.Scan(&id, &body); err != nil {
			return nil, q.failed("list", err)
		}
		letter, err := q.decode(id, body)
		if err != nil {
			return nil, err
		}
		letters = append(letters, letter)
	}
	return letters, q.failed("list", rows.Err())
}

// Update implements [deadletter.Queue].
func (q *Queue) Update(ctx context.Context, letter *deadletter.Letter) error {
	body, err := q.encode(letter)
	if err != nil {
		return err
	}
	return q.one(ctx, "update", `UPDATE retrysafe_letters SET letter = $1 WHERE id = $2`, body, letter.GetId())
}

// Remove implements [deadletter.Queue].
func (q *Queue) Remove(ctx context.Context, id string) error {
	return q.one(ctx, "remove", `DELETE FROM retrysafe_letters WHERE id = $1`, id)
}

// one runs a statement that changes the row of one letter.
func (q *Queue) one(ctx context.Context, op, statement string, args ...any) error {
	result, err := q.db.ExecContext(ctx, statement, args...)
	if err != nil {
		return q.failed(op, err)
	}
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		err = deadletter.ErrNotFound
	}
	return q.failed(op, err)
}

func (q *Queue) encode(letter *deadletter.Letter) ([]byte, error) {
	if letter.GetId() == "" {
		return nil, fmt.Errorf("%s: the letter has no id", q.d.Name)
	}
	body, err := proto.Marshal(letter)
	return body, q.failed("encode the letter", err)
}

// decode names a letter that is damaged, so that it can be removed.
func (q *Queue) decode(id string, body []byte) (*deadletter.Letter, error) {
	letter := new(deadletter.Letter)
	if err := proto.Unmarshal(body, letter); err != nil {
		return nil, q.failed(fmt.Sprintf("decode letter %q", id), err)
	}
	return letter, nil
}

func (q *Queue) failed(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s: %w", q.d.Name, op, err)
}
