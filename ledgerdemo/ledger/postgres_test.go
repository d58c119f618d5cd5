package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/retrysafe/retrysafe/dedup"
)

func pgError(severity, code string) error {
	return fmt.Errorf("wrapped: %w", &pgconn.PgError{SeverityUnlocalized: severity, Code: code})
}

func TestWhatMayPassIsTransient(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want bool
	}{
		{"a serialization failure", pgError("ERROR", "40001"), true},
		{"a deadlock", pgError("ERROR", "40P01"), true},
		{"a terminated backend", pgError("FATAL", "57P01"), true},
		{"a server that starts", pgError("FATAL", "57P03"), true},
		{"too many connections", pgError("FATAL", "53300"), true},
		{"a lock that was not had", pgError("ERROR", "55P03"), true},
		{"a balance that left 64 bits meanwhile", pgError("ERROR", "22003"), true},
		{"a connection that was cut", io.ErrUnexpectedEOF, true},
		{"a connection that was reset", &net.OpError{Op: "read", Err: errors.New("reset")}, true},
		{"a balance below zero", pgError("ERROR", "23514"), false},
		{"a table that is not there", pgError("ERROR", "42P01"), false},
		{"a wrong password", pgError("FATAL", "28P01"), false},
		{"another error", errors.New("another"), false},
	}
	for _, tt := range tests {
		if got := (*Postgres)(nil).Transient(tt.err); got != tt.want {
			t.Errorf("%s: %t", tt.name, got)
		}
	}
}

func TestACommitWhoseAnswerIsLostIsNotKnown(t *testing.T) {
	tests := []struct {
		name    string
		err     error
		unknown bool
	}{
		{"done", nil, false},
		{"refused by the server", pgError("ERROR", "40001"), false},
		{"rolled back, because a statement had failed", pgx.ErrTxCommitRollback, false},
		{"the backend was terminated", pgError("FATAL", "57P01"), true},
		{"the connection was cut", io.ErrUnexpectedEOF, true},
		{"the time was up", context.DeadlineExceeded, true},
	}
	for _, tt := range tests {
		got := committed(tt.err)
		if unknown := errors.Is(got, errCommitUnknown); unknown != tt.unknown || !errors.Is(got, tt.err) {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// A store that cannot undo the handler's writes must not release the claim.
func TestAnUnknownCommitKeepsItsClaim(t *testing.T) {
	s := NewService(broken{err: fmt.Errorf("%w: cut", errCommitUnknown), transient: true})
	store := dedup.NewMemory()
	op := dedup.Operation{Key: dedup.Key{Method: "debit", ID: "1"}, Lease: time.Hour}
	executions := 0
	do := func() error {
		_, err := dedup.Do(t.Context(), store, op, func(ctx context.Context) (dedup.Outcome, error) {
			executions++
			err := debiting("alice", money(1, "EUR"), "")(ctx, s)
			return dedup.Outcome{Code: status.Code(err)}, nil
		}, dedup.WithWait(time.Nanosecond))
		return err
	}
	if err := do(); err != nil {
		t.Fatal(err)
	}
	var running *dedup.InProgressError
	if err := do(); !errors.As(err, &running) || executions != 1 {
		t.Errorf("answered %v after %d executions", err, executions)
	}
}

func TestATerminatedBackendIsUnavailableAndLeavesNothing(t *testing.T) {
	k := onPostgres(t)
	open(t, k.service, "alice", "EUR", 1000)
	before := dump(t, k.db)
	err := k.service.storage.Write(t.Context(), func(c Conn) error {
		if _, err := c.Exec(t.Context(), `UPDATE ledger_accounts SET balance = 0 WHERE id = 'alice'`); err != nil {
			t.Error(err)
		}
		// The backend ends itself.
		_, err := c.Exec(t.Context(), `SELECT pg_terminate_backend(pg_backend_pid())`)
		return err
	})
	if answer := k.service.answer(t.Context(), "debit", err); status.Code(answer) != codes.Unavailable {
		t.Errorf("%v is answered %v", err, answer)
	}
	if after := dump(t, k.db); after != before {
		t.Errorf("it left\n%s", after)
	}
}
