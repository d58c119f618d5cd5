package nils_test

import (
	"errors"
	"testing"

	"github.com/retrysafe/retrysafe/interceptor/internal/nils"
)

func TestIs(t *testing.T) {
	for _, v := range []any{nil, (*int)(nil), map[string]int(nil), (func())(nil), []int(nil), (chan int)(nil), error(nil)} {
		if !nils.Is(v) {
			t.Errorf("Is(%#v) = false", v)
		}
	}
	for _, v := range []any{0, "", new(int), map[string]int{}, func() {}, []int{}, make(chan int), struct{}{}, errors.New("")} {
		if nils.Is(v) {
			t.Errorf("Is(%#v) = true", v)
		}
	}
}
