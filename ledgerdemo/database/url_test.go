package database

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

func TestURLs(t *testing.T) {
	tests := []struct {
		text, shown string
		kind        Kind
		address     string
	}{
		{"ledger.db", "ledger.db", SQLite, "ledger.db"},
		{"/tmp/a b/ledger.db", "/tmp/a b/ledger.db", SQLite, "/tmp/a b/ledger.db"},
		{`C:\ledger.db`, `C:\ledger.db`, SQLite, `C:\ledger.db`},
		{"sqlite:ledger.db", "ledger.db", SQLite, "ledger.db"},
		{"sqlite:postgres://", "postgres://", SQLite, "postgres://"},
		{"postgres://u:secret@h:5432/d?sslmode=disable", "postgres://h:5432/d", PostgreSQL, "postgres://u:secret@h:5432/d?sslmode=disable"},
		{"postgresql://h/d", "postgresql://h/d", PostgreSQL, "postgresql://h/d"},
		{"redis://u:secret@h:6379/1", "redis://h:6379/1", Redis, "redis://u:secret@h:6379/1"},
		{"rediss://h", "rediss://h", Redis, "rediss://h"},
	}
	for _, tt := range tests {
		u, err := Parse(tt.text)
		if err != nil || u.Kind != tt.kind || u.Address != tt.address {
			t.Errorf("%s: %+v, %v", tt.text, u, err)
			continue
		}
		if u.String() != tt.shown {
			t.Errorf("%s is shown as %s, want %s", tt.text, u, tt.shown)
		}
		if again, err := Parse(u.Text()); err != nil || again != u {
			t.Errorf("%s: its text is read as %+v, %v", tt.text, again, err)
		}
	}
}

func TestWhatIsNoURLIsRefusedAndNotShown(t *testing.T) {
	for _, text := range []string{
		"", "sqlite:", "mysql://u:secret@h/d",
		"postgres://u:secret@h:port/d", "postgres://u:secret@h/d?pool_max_conns=secret", "postgres://u:secret@h/d?sslmode=secret",
		"redis://u:secret@h:port", "redis://u:secret@h/secret", "redis://u:secret@h?secret=1",
	} {
		u, err := Parse(text)
		if err == nil {
			t.Errorf("%s is taken as %+v", text, u)
			continue
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestSettingsReachTheConnection(t *testing.T) {
	u, err := Parse("postgres://h/d?search_path=other&sslmode=disable&application_name=a+b")
	if err != nil {
		t.Fatal(err)
	}
	u, err = u.With(map[string]string{"search_path": "s", "timezone": "a b&c"})
	if err != nil {
		t.Fatal(err)
	}
	config, err := pgxpool.ParseConfig(u.Address)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"search_path": "s", "timezone": "a b&c", "application_name": "a+b"} {
		if got := config.ConnConfig.RuntimeParams[name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if config.ConnConfig.Database != "d" || config.ConnConfig.TLSConfig != nil {
		t.Errorf("%s is another database, or lost its settings", u.Address)
	}
	if _, err := (URL{SQLite, "f"}).With(nil); err == nil {
		t.Error("a file takes settings")
	}
}

func TestKindsHaveNames(t *testing.T) {
	for k := minKind; k <= maxKind; k++ {
		if strings.HasPrefix(k.String(), "kind_") {
			t.Errorf("%d has none", k)
		}
	}
	if got := Kind(9).String(); got != "kind_9" {
		t.Errorf("an unknown kind calls itself %s", got)
	}
}

func ExampleParse() {
	u, err := Parse("postgres://me:secret@localhost:5432/bank")
	fmt.Println(u.Kind, u, err)
	// Output: PostgreSQL postgres://localhost:5432/bank <nil>
}
