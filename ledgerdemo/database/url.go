package database

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
)

// URL says where a database is. The zero URL is nowhere.
type URL struct {
	Kind Kind
	// Address is what the database's driver takes: a file's name, or the whole
	// URL, which may hold a password.
	Address string
}

// Parse reads a URL, or the name of an SQLite file. Its errors do not show the
// text, which may hold a password.
func Parse(text string) (URL, error) {
	scheme, rest, ok := strings.Cut(text, ":")
	switch {
	case text == "":
		return URL{}, errors.New("is empty")
	case ok && scheme == "sqlite":
		if rest == "" {
			return URL{}, errors.New("sqlite: names no file, as sqlite:ledger.db does")
		}
		return URL{SQLite, rest}, nil
	case ok && (scheme == "postgres" || scheme == "postgresql"):
		if _, err := url.Parse(text); err != nil {
			return URL{}, errors.New("is not a URL such as postgres://user@localhost:5432/name")
		}
		if _, err := pgxpool.ParseConfig(text); err != nil {
			return URL{}, errors.New("is not a URL such as postgres://user@localhost:5432/name, or has a setting that is unknown")
		}
		return URL{PostgreSQL, text}, nil
	case ok && (scheme == "redis" || scheme == "rediss"):
		if _, err := redis.ParseURL(text); err != nil {
			return URL{}, errors.New("is not a URL such as redis://localhost:6379/0")
		}
		return URL{Redis, text}, nil
	case ok && strings.HasPrefix(rest, "//"):
		return URL{}, fmt.Errorf("%q is none of postgres, redis and sqlite", scheme)
	}
	return URL{SQLite, text}, nil
}

// IsZero reports whether it is nowhere.
func (u URL) IsZero() bool { return u == URL{} }

// String is what people may see: without user, password and settings.
func (u URL) String() string {
	if u.Kind == SQLite {
		return u.Address
	}
	parsed, err := url.Parse(u.Address)
	if err != nil {
		return u.Kind.String()
	}
	return fmt.Sprintf("%s://%s%s", parsed.Scheme, parsed.Host, parsed.Path)
}

// Text is what [Parse] reads as u. It may hold a password.
func (u URL) Text() string {
	if u.Kind == SQLite {
		return "sqlite:" + u.Address
	}
	return u.Address
}

// With returns u with settings that each connection to a PostgreSQL database
// begins with, such as its search_path.
func (u URL) With(settings map[string]string) (URL, error) {
	parsed, err := url.Parse(u.Address)
	if err != nil || u.Kind != PostgreSQL {
		return URL{}, fmt.Errorf("a database in %v takes no settings in its URL", u.Kind)
	}
	// By hand: in a PostgreSQL URL a plus is a plus, and no space.
	pairs := slices.DeleteFunc(strings.Split(parsed.RawQuery, "&"), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		_, replaced := settings[name]
		return pair == "" || replaced
	})
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		pairs = append(pairs, name+"="+strings.ReplaceAll(url.QueryEscape(settings[name]), "+", "%20"))
	}
	parsed.RawQuery = strings.Join(pairs, "&")
	return URL{PostgreSQL, parsed.String()}, nil
}
