package sqlitestore

import (
	"errors"
	"strings"
)

// errEmpty is the answer to a query that holds no statement, which the driver
// cannot bear.
var errEmpty = errors.New("sqlitestore: the query holds no statement")

// isEmpty says whether SQLite finds no statement in a query: it is all space,
// comments and semicolons, up to a zero byte.
func isEmpty(query string) bool {
	for {
		query = strings.TrimLeft(query, " \t\n\f\r;")
		switch {
		case query == "" || query[0] == 0:
			return true
		case strings.HasPrefix(query, "\ufeff"):
			query = query[len("\ufeff"):]
		case strings.HasPrefix(query, "--"):
			query = after(query, "\n")
		case strings.HasPrefix(query, "/*") && len(query) > 2:
			query = after(query[2:], "*/")
		default:
			return false
		}
	}
}

// after returns what follows the end of a comment; the end of the text, or a
// zero byte, ends it too.
func after(query, end string) string {
	query, _, _ = strings.Cut(query, "\x00")
	_, rest, _ := strings.Cut(query, end)
	return rest
}
