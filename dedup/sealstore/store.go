package sealstore

import (
	"bytes"
	"context"
	"errors"
	"log/slog"

	"github.com/retrysafe/retrysafe/dedup"
)

// Option configures a sealed store.
type Option func(*sealed)

// WithPlain lets records be read that are not sealed, for a storage that was in
// use before. Who can write to the storage can then forge outcomes, so leave it
// out again when the longest retention has passed.
func WithPlain() Option {
	return func(s *sealed) { s.plain = true }
}

// WithLogger sets where it is logged that a record cannot be opened, and why.
// Default: nowhere.
func WithLogger(l *slog.Logger) Option {
	return func(s *sealed) { s.logger = l }
}

// New returns a store that keeps its records in store, sealed with the first of
// the keys. It is a [dedup.Waiter] where store is one, is safe for concurrent
// use, and has nothing to close; store stays the caller's. The error reports
// everything that is wrong with the keys.
//
// A sealed record is 53 bytes longer than the record, which counts towards the
// limit that store has.
func New(store dedup.Store, keys []Key, opts ...Option) (dedup.Store, error) {
	ring, err := newKeyring(keys)
	if store == nil {
		err = errors.Join(errors.New("sealstore: New: store is nil"), err)
	}
	if err != nil {
		return nil, err
	}
	s := &sealed{Store: store, ring: ring}
	for _, opt := range opts {
		if opt != nil {
			opt(s)
		}
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	if w, ok := store.(dedup.Waiter); ok {
		return &waking{s, w}, nil
	}
	return s, nil
}

// sealed is a store whose records are sealed.
type sealed struct {
	dedup.Store
	ring   keyring
	plain  bool
	logger *slog.Logger
}

// waking is one that wakes those who wait.
type waking struct {
	*sealed
	dedup.Waiter
}

// unreadable is a record that no engine can read, so that it answers
// [dedup.ErrRecordUnreadable].
var unreadable = []byte{sealVersion, 0, 0, 0, 0, 0, 0, 0}

// Claim implements [dedup.Store].
func (s *sealed) Claim(ctx context.Context, req dedup.ClaimRequest) (dedup.Answer, error) {
	answer, err := s.Store.Claim(ctx, req)
	if err != nil {
		return answer, err
	}
	switch answer.State {
	case dedup.Claimed:
		if answer.Claim != nil {
			answer.Claim = &claim{Claim: answer.Claim, ring: s.ring, op: req.Key}
		}
	case dedup.Completed:
		answer.Record = s.open(ctx, req.Key, answer.Record)
	}
	return answer, nil
}

func (s *sealed) open(ctx context.Context, op dedup.Key, kept []byte) []byte {
	record, err := s.ring.open(op, kept)
	switch {
	case err == nil:
		return record
	case err == errPlain && s.plain:
		return kept
	}
	s.logger.ErrorContext(ctx, "sealstore: a record cannot be opened", "method", op.Method, "error", err)
	return bytes.Clone(unreadable)
}

// claim seals what it is completed with.
type claim struct {
	dedup.Claim
	ring keyring
	op   dedup.Key

	// A completion that is repeated gives the store the same bytes.
	record, kept []byte
}

// Complete implements [dedup.Claim].
func (c *claim) Complete(ctx context.Context, done dedup.Completion) error {
	if c.kept == nil || !bytes.Equal(c.record, done.Record) {
		kept, err := c.ring.seal(c.op, done.Record)
		if err != nil {
			return err
		}
		c.record, c.kept = done.Record, kept
	}
	done.Record = c.kept
	return c.Claim.Complete(ctx, done)
}
