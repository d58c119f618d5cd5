package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
)

// raced is how often a claim is tried on an operation that changes between
// being found and being judged. Each time somebody else has made progress.
const raced = 100

// Claim implements [dedup.Store]. It never waits for another's claim to end.
func (s *Store) Claim(ctx context.Context, req dedup.ClaimRequest) (dedup.Answer, error) {
	err := errors.Join(checkDuration("lease", req.Lease), checkDuration("retention", req.Retention))
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return dedup.Answer{}, err
	}
	n := s.names(req.Key)
	for range raced {
		first := newHeader(req)
		found, held, err := s.findOrSet(ctx, n, first, req)
		if err != nil {
			return dedup.Answer{}, explain("claim", err)
		}
		if !held {
			return s.claimed(n, first), nil
		}
		answer, err := s.judge(ctx, n, found, req)
		if err != nil || answer.State != 0 {
			return answer, err
		}
	}
	return dedup.Answer{}, fmt.Errorf("redisstore: claim: the operation changed hands %d times meanwhile", raced)
}

// findOrSet returns what is known of the operation, or false where nothing was
// and it is claimed now.
func (s *Store) findOrSet(ctx context.Context, n names, first header, req dedup.ClaimRequest) (string, bool, error) {
	found, held, err := s.driver.SetNew(ctx, n.operation, first.text(claimed), duration(lifetime(req.Lease, first)))
	if !isFull(err) {
		return found, held, err
	}
	// A full server refuses the command before it looks, but what is known of
	// the operation can still be read.
	found, held, getErr := s.driver.Get(ctx, n.operation)
	if getErr != nil {
		return "", false, getErr
	}
	if !held {
		return "", false, err
	}
	return found, true, nil
}

// lifetime is how long, in milliseconds, a claim is remembered that is not
// settled.
func lifetime(lease time.Duration, h header) int64 { return millis(lease) + h.retention }

// judge answers by what was found. The answer has no state where that changed
// meanwhile.
func (s *Store) judge(ctx context.Context, n names, found string, req dedup.ClaimRequest) (dedup.Answer, error) {
	h, err := parse(found)
	if err != nil {
		return dedup.Answer{}, err
	}
	if h.state != released && h.fingerprint != req.Fingerprint {
		return dedup.Answer{State: dedup.Reused, Fingerprint: h.fingerprint}, nil
	}
	if h.state == completed {
		return dedup.Answer{State: dedup.Completed, Record: []byte(found[headerSize:])}, nil
	}
	next, text := h.successor(req), ""
	if h.state == released || req.Takeover {
		text = next.text(claimed)
	}
	reply, err := s.run(ctx, judgeScript, []string{n.operation},
		found, decimal(h.retention), text, decimal(lifetime(req.Lease, next)))
	if err != nil {
		return dedup.Answer{}, explain("claim", err)
	}
	switch {
	case reply == -2:
		return dedup.Answer{}, nil
	case reply == -1:
		return s.claimed(n, next), nil
	case reply == 0:
		return dedup.Answer{State: dedup.Unknown}, nil
	case h.owner == req.Owner:
		return s.claimed(n, h), nil
	}
	return dedup.Answer{State: dedup.InProgress, LeaseLeft: duration(reply)}, nil
}

func (s *Store) claimed(n names, h header) dedup.Answer {
	return dedup.Answer{State: dedup.Claimed, Claim: &claim{store: s, names: n, header: h}}
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
