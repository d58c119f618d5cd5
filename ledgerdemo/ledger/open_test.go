package ledger_test

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe/ledgerdemo/ledger"
)

func TestSeveralMayOpenANewFileAtOnce(t *testing.T) {
	for range 20 {
		path := filepath.Join(t.TempDir(), "ledger.db")
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				db, err := ledger.OpenSQLite(t.Context(), path)
				if err != nil {
					t.Error(err)
					return
				}
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
}
