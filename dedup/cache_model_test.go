package dedup_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
)

// TestACacheNeverChangesAnAnswer does the same at random to a store, and to two
// caches in front of another: all that both answer must be the same.
func TestACacheNeverChangesAnAnswer(t *testing.T) {
	var hits uint64
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			store := dedup.NewMemory()
			opts := []dedup.CacheOption{dedup.WithCacheKeys(3), dedup.WithCacheTime(500 * time.Millisecond)}
			caches := []dedup.Cache{newCache(t, store, opts...), newCache(t, store, opts...)}
			m := &model{T: t, random: rand.New(rand.NewPCG(seed, 0)), plain: dedup.NewMemory(), caches: caches}
			for range 200 {
				m.step()
			}
			hits += caches[0].Stats().Hits + caches[1].Stats().Hits
			if t.Failed() {
				t.Fatalf("with seed %d", seed)
			}
		})
	}
	if hits < 1000 {
		t.Errorf("the caches answered no more than %d times", hits)
	}
}

type model struct {
	*testing.T
	random *rand.Rand
	plain  dedup.Store
	caches []dedup.Cache
	claims []twins
}

// twins are one claim of both.
type twins struct {
	key           dedup.Key
	plain, cached dedup.Claim
}

func (m *model) duration() time.Duration {
	return time.Duration(1+m.random.IntN(1000)) * time.Millisecond
}

func (m *model) step() {
	switch m.random.IntN(8) {
	case 0:
		time.Sleep(m.duration() / 4)
	case 1, 2, 3:
		m.settle()
	default:
		m.claim()
	}
}

func (m *model) claim() {
	req := dedup.ClaimRequest{
		Key:         dedup.Key{Method: "m", ID: fmt.Sprint(m.random.IntN(5))},
		Fingerprint: dedup.Fingerprint{Version: dedup.FingerprintVersion(m.random.IntN(8) / 7)},
		Owner:       dedup.Owner{byte(m.random.IntN(4))},
		Lease:       m.duration(),
		Retention:   m.duration(),
		Takeover:    m.random.IntN(2) == 0,
	}
	want, err := m.plain.Claim(m.Context(), req)
	if err != nil {
		m.Fatal(err)
	}
	got, err := m.caches[m.random.IntN(2)].Claim(m.Context(), req)
	if err != nil {
		m.Fatal(err)
	}
	if got.State != want.State || string(got.Record) != string(want.Record) ||
		got.Fingerprint != want.Fingerprint || got.LeaseLeft != want.LeaseLeft {
		m.Errorf("answered %+v, want %+v", got, want)
	}
	if got.Claim != nil && want.Claim != nil {
		m.keep(twins{key: req.Key, plain: want.Claim, cached: got.Claim})
	}
}

// keep keeps a claim, unless it is one that was asked for again by its owner: it
// is settled through one value, as an engine does.
func (m *model) keep(c twins) {
	for _, before := range m.claims {
		if before.key == c.key && before.plain.Fence() == c.plain.Fence() {
			return
		}
	}
	m.claims = append(m.claims, c)
}

func (m *model) settle() {
	if len(m.claims) == 0 {
		return
	}
	c := m.claims[m.random.IntN(len(m.claims))]
	done := dedup.Completion{Record: []byte(fmt.Sprint(m.random.IntN(100))), Retention: m.duration()}
	lease, kind := m.duration(), m.random.IntN(4)
	do := func(claim dedup.Claim) error {
		switch kind {
		case 0:
			return claim.Renew(m.Context(), lease)
		case 1:
			return claim.Release(m.Context())
		}
		return claim.Complete(m.Context(), done)
	}
	if want, got := do(c.plain), do(c.cached); got != want {
		m.Errorf("settlement %d: %v, want %v", kind, got, want)
	}
}
