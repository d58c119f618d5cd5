package storetest_test

import (
	"testing"

	"github.com/retrysafe/retrysafe/dedup/storetest"
)

func TestMemory(t *testing.T) { storetest.Run(t, newStorage) }

func BenchmarkMemory(b *testing.B) { storetest.Bench(b, newStorage) }
