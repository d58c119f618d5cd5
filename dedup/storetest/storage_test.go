package storetest

import (
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
)

// promising is a store of which only the promise matters.
type promising struct {
	dedup.Store
	promise dedup.Promise
}

func (p promising) Promise() dedup.Promise { return p.promise }

func TestWrongDeclarationsAreReported(t *testing.T) {
	leased := func() Storage { return newLeased(none)(t) }
	transactional := func() Storage { return newConcurrent(none)(t) }
	tests := []struct {
		name    string
		storage func() Storage
		change  func(*Storage)
		want    []string // one for each mistake; none where it is right
	}{
		{"leased", leased, func(*Storage) {}, nil},
		{"transactional", transactional, func(*Storage) {}, nil},
		{"no second store", leased, func(st *Storage) { st.Second = nil }, []string{"First and Second"}},
		{"no promise", leased, func(st *Storage) { st.First, st.Second = promising{}, promising{} }, []string{"no promise"}},
		{"two promises", leased, func(st *Storage) { st.Second = promising{promise: dedup.ExactlyOnce} },
			[]string{"Second promises", "dedup.Waiter"}},
		{"negative bounds", leased, func(st *Storage) { st.MinDuration, st.MaxRecord = -time.Second, -1 },
			[]string{"MinDuration: -1s", "MaxRecord: -1"}},
		{"leased with effects", leased, func(st *Storage) { st.Effects, st.ConcurrentClaims = transactional().Effects, true },
			[]string{"Effects: stores that", "ConcurrentClaims"}},
		{"transactional without effects", transactional, func(st *Storage) { st.Effects, st.Restart = nil, nil },
			[]string{"Effects: needed", "Restart: needed"}},
		{"half of the effects", transactional, func(st *Storage) { st.Effects = &Effects{} },
			[]string{"Write, Written and Fail"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			st := tt.storage()
			tt.change(&st)
			err := st.validate()
			if len(tt.want) == 0 {
				if err != nil {
					t.Fatalf("validate: %v, want nil", err)
				}
				return
			}
			if err == nil {
				t.Fatal("validate: nil, want an error")
			}
			if lines := strings.Split(err.Error(), "\n"); len(lines) != len(tt.want) {
				t.Errorf("%d mistakes reported, want %d: %v", len(lines), len(tt.want), err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("validate: %q does not say %q", err, want)
				}
			}
		})
	}
}
