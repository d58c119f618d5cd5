package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"path/filepath"
	"strings"

	"github.com/retrysafe/retrysafe/ledgerdemo/audit"
	"github.com/retrysafe/retrysafe/ledgerdemo/database"
)

// place is where a run keeps its ledger and its outcomes, apart from all else
// that is there.
type place struct {
	store    database.URL
	ledger   database.URL // where debits stand
	postgres *schema      // nil where nothing is in PostgreSQL
	redis    *keys        // nil where nothing is in Redis
}

// newPlace makes the place. Files are made in dir.
func newPlace(ctx context.Context, c Config, dir string) (*place, error) {
	name := "ledgerdemo_" + strings.ToLower(rand.Text())
	p := &place{store: c.Store, ledger: c.Ledger}
	if c.Store.Kind == database.Redis {
		p.redis = &keys{at: c.Store, prefix: name + ":"}
	} else {
		p.ledger = c.Store
	}
	if p.ledger.Kind == database.PostgreSQL {
		var err error
		if p.postgres, err = newSchema(ctx, p.ledger, name); err != nil {
			return nil, err
		}
		p.ledger = p.postgres.url
	} else {
		p.ledger = database.URL{Kind: database.SQLite, Address: filepath.Join(dir, "ledger.db")}
	}
	if p.redis == nil {
		p.store = p.ledger
	}
	return p, nil
}

// String says where it is.
func (p *place) String() string {
	if p.redis == nil {
		return p.store.Kind.String()
	}
	return "Redis, the ledger in " + p.ledger.Kind.String()
}

// flags are those by which a server finds it.
func (p *place) flags() []string {
	flags := []string{"--store", p.store.Text()}
	if p.redis != nil {
		flags = append(flags, "--ledger", p.ledger.Text(), "--prefix", p.redis.prefix, "--lease", lease.String())
	}
	return flags
}

// audit reads the ledger.
func (p *place) audit(ctx context.Context, want audit.Expectation) (*audit.Report, error) {
	db, err := audit.Open(ctx, p.ledger)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	return audit.Run(ctx, db, want)
}

// leave clears away what is in servers, or says where it is kept. A run that
// was interrupted clears it away too.
func (p *place) leave(ctx context.Context, c Config) error {
	ctx, cancel := unbroken(ctx)
	defer cancel()
	var errs []error
	if p.postgres != nil {
		if c.Keep {
			c.progress().Say("kept: schema " + p.postgres.name + " in " + p.postgres.url.String())
		} else {
			errs = append(errs, p.postgres.drop(ctx))
		}
		errs = append(errs, p.postgres.close(ctx))
	}
	if p.redis != nil {
		if c.Keep {
			c.progress().Say("kept: keys " + p.redis.prefix + "* in " + p.redis.at.String())
		} else {
			errs = append(errs, p.redis.remove(ctx))
		}
	}
	return errors.Join(errs...)
}
