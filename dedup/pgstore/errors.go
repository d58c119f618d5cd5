package pgstore

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/retrysafe/retrysafe/dedup"
)

// SQLSTATEs that are told apart. See PostgreSQL's appendix A.
const (
	codeUndefinedTable       = "42P01"
	codeUndefinedFunction    = "42883"
	codeUndefinedSchema      = "3F000"
	codeUndefinedStatement   = "26000"
	codeDuplicateStatement   = "42P05"
	codeLockNotAvailable     = "55P03"
	codeUniqueViolation      = "23505"
	codeCheckViolation       = "23514" // also where a row has no partition
	codeDiskFull             = "53100"
	codeOutOfMemory          = "53200"
	codeSerializationFailure = "40001"
	codeDeadlock             = "40P01"
	codeRefused              = "RS001" // raised by retrysafe_refuse
)

// codeOf returns the SQLSTATE of an error that the server sent and that did
// not end the session, otherwise "".
func codeOf(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.SeverityUnlocalized != "FATAL" && pg.SeverityUnlocalized != "PANIC" {
		return pg.Code
	}
	return ""
}

// isRecorded says whether err tells that another has recorded the operation.
func isRecorded(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	return pg.Code == codeRefused || pg.Code == codeUniqueViolation && pg.TableName == outcomesTable
}

// isOutOfPartitions says whether err tells that an outcome has no partition.
func isOutOfPartitions(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == codeCheckViolation && pg.TableName == partitionedTable
}

// explain says what was being done and, where the cause is known, the cure.
func explain(doing string, err error) error {
	if isOutOfPartitions(err) {
		return fmt.Errorf("pgstore: %s: there is no partition for the present: %w", doing, err)
	}
	switch codeOf(err) {
	case codeUndefinedTable, codeUndefinedSchema, codeUndefinedFunction:
		return fmt.Errorf("pgstore: %s: are the tables there? Migrate creates them: %w", doing, err)
	case codeUndefinedStatement, codeDuplicateStatement:
		return fmt.Errorf("pgstore: %s: prepared statements do not last here, as behind a pooler "+
			"in transaction mode; set default_query_exec_mode=exec in the connection string: %w", doing, err)
	case codeDiskFull, codeOutOfMemory:
		return fmt.Errorf("pgstore: %s: %w: %w", doing, dedup.ErrFull, err)
	}
	return fmt.Errorf("pgstore: %s: %w", doing, err)
}
