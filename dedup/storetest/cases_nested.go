package storetest

import (
	"context"

	"github.com/retrysafe/retrysafe/dedup"
)

// nest is an operation whose handler executes another one on the same store.
// Each has written a marker.
type nest struct {
	outerKey, innerKey       dedup.Key
	outerMarker, innerMarker string
	outer, inner             dedup.Claim
}

func (s *suite) nest() nest {
	s.Helper()
	n := nest{outerKey: newKey(), innerKey: newKey(), outerMarker: unique(), innerMarker: unique()}
	n.outer = s.claim(s.First, request(n.outerKey))
	s.write(n.outer, n.outerMarker)

	handler := n.outer.Context(s.Context())
	ctx, cancel := context.WithTimeout(handler, patience)
	defer cancel()
	answer, err := s.try(ctx, s.First, request(n.innerKey))
	if err != nil {
		s.Fatalf("nested %v", err)
	}
	s.wantState(answer, dedup.Claimed)
	n.inner = answer.Claim
	s.writeUnder(n.inner, n.innerMarker, handler)
	return n
}

// wantNew fails the case where somebody has executed the operation.
func (s *suite) wantNew(key dedup.Key) {
	s.Helper()
	s.must("Release", s.claim(s.Second, careful(key)).Release)
}

func nestedComplete(s *suite) {
	n := s.nest()
	s.must("nested Complete", complete(n.inner, recorded("inner")))
	s.wantWritten(nil, []string{n.outerMarker, n.innerMarker})
	s.must("Complete", complete(n.outer, recorded("outer")))
	s.wantWritten([]string{n.outerMarker, n.innerMarker}, nil)
	s.wantRecord(n.innerKey, []byte("inner"))
	s.wantRecord(n.outerKey, []byte("outer"))
}

func nestedInReleased(s *suite) {
	n := s.nest()
	s.must("nested Complete", complete(n.inner, recorded("inner")))
	s.must("Release", n.outer.Release)
	s.wantWritten(nil, []string{n.outerMarker, n.innerMarker})
	s.wantNew(n.innerKey)
	s.wantNew(n.outerKey)
}

func nestedInUndone(s *suite) {
	n := s.nest()
	s.must("nested Complete", complete(n.inner, recorded("inner")))
	s.must("Complete with Undo", complete(n.outer, undone("outer")))
	s.wantWritten(nil, []string{n.outerMarker, n.innerMarker})
	s.wantNew(n.innerKey)
	s.wantRecord(n.outerKey, []byte("outer"))
}

func nestedRelease(s *suite) {
	n := s.nest()
	s.must("nested Release", n.inner.Release)
	s.must("Complete", complete(n.outer, recorded("outer")))
	s.wantWritten([]string{n.outerMarker}, []string{n.innerMarker})
	s.wantNew(n.innerKey)
	s.wantRecord(n.outerKey, []byte("outer"))
}

func nestedUndo(s *suite) {
	n := s.nest()
	s.must("nested Complete with Undo", complete(n.inner, undone("inner")))
	s.must("Complete", complete(n.outer, recorded("outer")))
	s.wantWritten([]string{n.outerMarker}, []string{n.innerMarker})
	s.wantRecord(n.innerKey, []byte("inner"))
	s.wantRecord(n.outerKey, []byte("outer"))
}

// nestedReplay: inside a transaction, what it has completed is completed.
func nestedReplay(s *suite) {
	n := s.nest()
	s.must("nested Complete", complete(n.inner, recorded("inner")))
	ctx, cancel := context.WithTimeout(n.outer.Context(s.Context()), patience)
	defer cancel()
	answer, err := s.try(ctx, s.First, request(n.innerKey))
	if err != nil {
		s.Fatalf("nested %v", err)
	}
	s.wantState(answer, dedup.Completed)
	if string(answer.Record) != "inner" {
		s.Errorf("record %q, want %q", answer.Record, "inner")
	}
	s.must("Complete", complete(n.outer, recorded("outer")))
}

// nestedInItself: an operation that asks for itself must not wait for itself.
func nestedInItself(s *suite) {
	key, marker := newKey(), unique()
	outer := s.claim(s.First, request(key))
	s.write(outer, marker)
	ctx, cancel := context.WithTimeout(outer.Context(s.Context()), patience)
	defer cancel()
	answer, err := s.try(ctx, s.First, request(key))
	if ctx.Err() != nil {
		s.Fatal("claim inside the operation itself: waited for itself until its context ended")
	}
	if err == nil {
		s.wantState(answer, dedup.InProgress)
	}
	s.must("Complete", complete(outer, recorded("outer")))
	s.wantWritten([]string{marker}, nil)
	s.wantRecord(key, []byte("outer"))
}
