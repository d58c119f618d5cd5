package sqlitestore

import (
	"testing"

	"github.com/ncruces/go-sqlite3"
)

// FuzzIsEmpty compares with SQLite itself, where SQLite can read the query.
func FuzzIsEmpty(f *testing.F) {
	for _, query := range []string{
		"", " ", ";", "--", "-- x\n", "-- x\n;", "/*", "/* x */", "/**/;", "/* x * / */", "/*/", "/",
		"\ufeff", ";\ufeff;", "\x00SELECT 1", "--\x00\nSELECT 1", "/*\x00*/SELECT 1", "\v", "SELECT 1", "; SELECT 1", "-",
	} {
		f.Add(query)
	}
	f.Fuzz(func(t *testing.T, query string) {
		conn, err := sqlite3.Open(":memory:")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		stmt, _, err := conn.Prepare(query)
		if err != nil {
			return
		}
		defer stmt.Close()
		if (stmt == nil) != isEmpty(query) {
			t.Errorf("isEmpty(%q) = %v, SQLite's statement: %v", query, isEmpty(query), stmt)
		}
	})
}
