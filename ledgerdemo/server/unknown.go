package server

import (
	"context"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/dedup/redisstore"
)

// watched tells of each operation that is about to be executed although nobody
// knows whether it was before: its claim was not settled when its lease ended.
type watched struct {
	*redisstore.Store // its Wait too
	unknown           func()
}

var _ dedup.Waiter = (*watched)(nil)

func watch(store *redisstore.Store, unknown func()) dedup.Store {
	if unknown == nil {
		return store
	}
	return &watched{store, unknown}
}

// Claim asks first without a takeover, because only then the answer says that
// the outcome is unknown.
func (w *watched) Claim(ctx context.Context, req dedup.ClaimRequest) (dedup.Answer, error) {
	takeover := req.Takeover
	req.Takeover = false
	answer, err := w.Store.Claim(ctx, req)
	if err != nil || answer.State != dedup.Unknown || !takeover {
		return answer, err
	}
	req.Takeover = true
	answer, err = w.Store.Claim(ctx, req)
	// Where the answer is lost, it may have been taken over: asked again, it
	// would only recognise its owner.
	if err != nil || answer.State == dedup.Claimed {
		w.unknown()
	}
	return answer, err
}
