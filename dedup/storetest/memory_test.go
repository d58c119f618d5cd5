package storetest_test

import (
	"testing"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/storetest"
)

func TestMemory(t *testing.T) {
	storetest.Run(t, func(testing.TB) storetest.Storage {
		store := dedup.NewMemory()
		return storetest.Storage{First: store, Second: store}
	})
}
