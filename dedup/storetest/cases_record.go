package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/retrysafe/retrysafe/dedup"
)

const (
	kibibyte = 1 << 10
	mebibyte = 1 << 20
)

// noise returns n bytes that do not compress.
func noise(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{}).Read(b)
	return b
}

func allBytes() []byte {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

// largest is the size of the largest record that the stores must keep.
func (s *suite) largest() int {
	if s.MaxRecord == 0 {
		return 4 * mebibyte
	}
	return s.MaxRecord
}

func opaqueRecords(s *suite) {
	records := [][]byte{
		nil,
		{},
		{0},
		[]byte("\x00\x00zeros at both ends\x00\x00"),
		allBytes(),
		[]byte("\xff\xfe not UTF-8 \xc3\x28"),
		[]byte(`{"looks": "like JSON"}`),
		[]byte(`'); DROP TABLE records; -- \x41 $1 ? %s {{.}}`),
		[]byte("12345678901234567890"),
		[]byte(" white space at both ends\r\n"),
		noise(min(mebibyte, s.largest())),
	}
	for _, record := range records {
		if len(record) > s.largest() {
			continue
		}
		key := newKey()
		claim := s.claim(s.First, request(key))
		s.must("Complete", complete(claim, dedup.Completion{Record: record, Retention: long}))
		s.wantRecord(key, record)
	}
}

// ownedRecord: the caller goes on using the slice that it gave.
func ownedRecord(s *suite) {
	key := newKey()
	claim := s.claim(s.First, request(key))
	record := []byte("paid")
	s.must("Complete", complete(claim, dedup.Completion{Record: record, Retention: long}))
	clear(record)
	s.wantRecord(key, []byte("paid"))
}

func largestRecord(s *suite) {
	key := newKey()
	record := noise(s.largest())
	claim := s.claim(s.First, request(key))
	s.must("Complete with the largest record", complete(claim, dedup.Completion{Record: record, Retention: long}))
	s.wantRecord(key, record)
}

// tooLargeRecord is for stores that declare MaxRecord.
func tooLargeRecord(s *suite) {
	req := request(newKey())
	claim := s.claim(s.First, req)
	large := dedup.Completion{Record: noise(s.MaxRecord + 1), Retention: long}
	if err := s.settle(complete(claim, large)); !errors.Is(err, dedup.ErrTooLarge) {
		s.Fatalf("Complete with a record of MaxRecord+1: error %v, want ErrTooLarge", err)
	}
	claim = s.afterRefusal(claim, req)
	s.wantHeld(s.First, request(req.Key))
	s.must("Complete", complete(claim, recorded("smaller")))
	s.wantRecord(req.Key, []byte("smaller"))
}

// distinctKeys are operations that a store which glues the parts of a key
// together, folds, trims, cuts or interprets them takes for one another. No part
// has more than 255 bytes. All hold something unique, so that a storage may be
// used again.
func distinctKeys() []dedup.Key {
	u := unique()
	full := func(last string) string { return u + strings.Repeat("x", 255-len(u)-len(last)) + last }
	return []dedup.Key{
		{Scope: u + "a", Method: "bc", ID: "d"},
		{Scope: u + "ab", Method: "c", ID: "d"},
		{Scope: u + "a", Method: "b", ID: "cd"},
		{Scope: u, Method: "abc", ID: "d"},
		{Scope: u + "abc", Method: "", ID: "d"},
		{Scope: u + "abcd", Method: "", ID: ""},
		{Scope: "", Method: u + "abc", ID: "d"},
		{Scope: "", Method: "", ID: u + "abcd"},
		{Scope: u, Method: "m", ID: "k"},
		{Scope: u, Method: "k", ID: "m"},
		{Scope: "m", Method: u, ID: "k"},

		{Scope: u + "\x00a", Method: "b", ID: "c"},
		{Scope: u, Method: "a\x00b", ID: "c"},
		{Scope: u + "\x00a\x00b", Method: "c", ID: ""},
		{Scope: u + ":a", Method: "b", ID: "c"},
		{Scope: u, Method: "a:b", ID: "c"},
		{Scope: u + "/a", Method: "b", ID: "c"},
		{Scope: u, Method: "a/b", ID: "c"},
		{Scope: u + "|a", Method: "b", ID: "c"},
		{Scope: u, Method: "a|b", ID: "c"},
		{Scope: u + "1:a", Method: "1:b", ID: "c"},
		{Scope: u, Method: "1:a1:b", ID: "c"},

		{Scope: u, Method: "m", ID: "K"},
		{Scope: u, Method: "m", ID: "k "},
		{Scope: u, Method: "m", ID: " k"},
		{Scope: u, Method: "m", ID: "k\n"},
		{Scope: u, Method: "m", ID: "k\x00"},
		{Scope: u, Method: "m", ID: "caf\u00e9"},
		{Scope: u, Method: "m", ID: "cafe\u0301"},
		{Scope: u, Method: "m", ID: "\u212a"}, // the Kelvin sign folds to k
		{Scope: u, Method: "m", ID: "\xff"},
		{Scope: u, Method: "m", ID: "\xfe"},
		{Scope: u, Method: "m", ID: "\ufffd"},
		{Scope: u, Method: "m", ID: "1"},
		{Scope: u, Method: "m", ID: "01"},
		{Scope: u, Method: "m", ID: "1.0"},

		{Scope: u, Method: "m", ID: "%"},
		{Scope: u, Method: "m", ID: "_"},
		{Scope: u, Method: "m", ID: "*"},
		{Scope: u, Method: "m", ID: `k' OR '1'='1`},
		{Scope: u, Method: "m", ID: `k"); redis.call("FLUSHALL") --`},
		{Scope: u, Method: "m", ID: `k\`},
		{Scope: u, Method: "m", ID: `k\\`},
		{Scope: u, Method: "m", ID: "{k}"},
		{Scope: u, Method: "m", ID: "$1"},
		{Scope: u + "{", Method: "}", ID: "k"},
		{Scope: u + "}", Method: "{", ID: "k"},

		{Scope: u, Method: "m", ID: full("a")},
		{Scope: u, Method: "m", ID: full("b")},
		{Scope: u, Method: "m", ID: full("a")[:254]},
		{Scope: full("a"), Method: full("a"), ID: full("a")},
		{Scope: full("b"), Method: full("a"), ID: full("a")},
		{Scope: full("a"), Method: full("b"), ID: full("a")},
		{Scope: full("a"), Method: full("a"), ID: full("b")},
	}
}

func distinctOperations(s *suite) {
	keys := distinctKeys()
	for i, key := range keys {
		answer := s.ask(s.either(i), request(key))
		if answer.State != dedup.Claimed {
			s.Fatalf("the key %q %q %q: answered %v, as if it were one of those before it",
				key.Scope, key.Method, key.ID, answer.State)
		}
		s.must("Complete", complete(answer.Claim, recorded(nth(i))))
	}
	for i, key := range keys {
		answer := s.ask(s.either(i+1), request(key))
		if answer.State != dedup.Completed || !bytes.Equal(answer.Record, []byte(nth(i))) {
			s.Fatalf("the key %q %q %q: answered %v and the record %q, want %v and %q",
				key.Scope, key.Method, key.ID, answer.State, answer.Record, dedup.Completed, nth(i))
		}
	}
}

// separateClaims: the life of an operation does not touch its namesake in
// another scope or under another method.
func separateClaims(s *suite) {
	key := newKey()
	otherScope, otherMethod := key, key
	otherScope.Scope += "2"
	otherMethod.Method += "2"
	for i, namesake := range []dedup.Key{otherScope, otherMethod} {
		req := request(namesake)
		req.Fingerprint = another
		s.must("Complete", complete(s.claim(s.either(i), req), recorded(nth(i))))
	}
	claim := s.claim(s.First, request(key))
	s.must("Release", claim.Release)
	for i, namesake := range []dedup.Key{otherScope, otherMethod} {
		req := request(namesake)
		req.Fingerprint = another
		answer := s.ask(s.Second, req)
		s.wantState(answer, dedup.Completed)
		if string(answer.Record) != nth(i) {
			s.Errorf("record %q, want %q", answer.Record, nth(i))
		}
	}
}

// nth is the record of one of several operations.
func nth(i int) string { return fmt.Sprint("record ", i) }
