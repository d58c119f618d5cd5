package sealstore

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/dedup"
)

var operation = dedup.Key{Scope: "tenant", Method: "/ledger.v1.LedgerService/Debit", ID: "order-42"}

func ring(t testing.TB, keys ...Key) keyring {
	t.Helper()
	r, err := newKeyring(keys)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mustSeal(t testing.TB, r keyring, record []byte) []byte {
	t.Helper()
	sealed, err := r.seal(operation, record)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func TestARecordIsOpenedAsItWasSealed(t *testing.T) {
	r := ring(t, newKey(7))
	for _, size := range []int{0, 1, 15, 16, 17, 4096, 4 << 20} {
		record := bytes.Repeat([]byte("x"), size)
		sealed := mustSeal(t, r, record)
		if len(sealed) != size+headerSize+tagSize {
			t.Errorf("%d bytes became %d", size, len(sealed))
		}
		got, err := r.open(operation, sealed)
		if err != nil || got == nil || !bytes.Equal(got, record) {
			t.Errorf("%d bytes were opened as %d, %v", size, len(got), err)
		}
	}
}

func TestNothingOfARecordIsSeen(t *testing.T) {
	r := ring(t, newKey(7))
	record := []byte("the balance is EUR 12.50")
	first, second := mustSeal(t, r, record), mustSeal(t, r, record)
	if bytes.Contains(first, record[:8]) {
		t.Error("the record is seen")
	}
	if bytes.Equal(first[5:], second[5:]) || bytes.Equal(first[headerSize:], second[headerSize:]) {
		t.Error("equal records are seen to be equal")
	}
}

func TestAChangeOfAnyByteIsFound(t *testing.T) {
	r := ring(t, newKey(7))
	sealed := mustSeal(t, r, []byte("paid"))
	for i := range sealed {
		for _, bit := range []byte{1, 128} {
			changed := bytes.Clone(sealed)
			changed[i] ^= bit
			if got, err := r.open(operation, changed); err == nil {
				t.Errorf("byte %d: opened as %q", i, got)
			}
		}
	}
	for n := range sealed {
		if got, err := r.open(operation, sealed[:n]); err == nil {
			t.Errorf("the first %d bytes: opened as %q", n, got)
		}
	}
	if got, err := r.open(operation, append(bytes.Clone(sealed), 0)); err == nil {
		t.Errorf("with a byte more: opened as %q", got)
	}
}

func TestARecordIsOfItsOperationAlone(t *testing.T) {
	r := ring(t, newKey(7))
	sealed := mustSeal(t, r, []byte("paid"))
	for _, other := range []dedup.Key{
		{Scope: "tenant2", Method: operation.Method, ID: operation.ID},
		{Scope: operation.Scope, Method: operation.Method + "s", ID: operation.ID},
		{Scope: operation.Scope, Method: operation.Method, ID: "order-43"},
		{Scope: operation.Scope + "/", Method: operation.Method[1:], ID: operation.ID}, // the same text
	} {
		if got, err := r.open(other, sealed); err == nil {
			t.Errorf("%#v: opened as %q", other, got)
		}
	}
}

func TestAKeyIsChangedWithoutAnInterruption(t *testing.T) {
	before, now := newKey(1), newKey(2)
	old, both, changed, final := ring(t, before), ring(t, before, now), ring(t, now, before), ring(t, now)
	tests := []struct {
		name           string
		sealing, opens keyring
		can            bool
	}{
		{"the old key, by who has both", old, both, true},
		{"the old key, by who has changed", old, changed, true},
		{"the old key, by who has dropped it", old, final, false},
		{"who has both seals with the old", both, old, true},
		{"the new key, by who has both", changed, both, true},
		{"the new key, by who has not got it", changed, old, false},
		{"the new key, by who has dropped the old", changed, final, true},
		{"another key of the same ID", ring(t, newKey(1)), old, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.opens.open(operation, mustSeal(t, tt.sealing, []byte("paid")))
			if (err == nil) != tt.can || err == nil && string(got) != "paid" {
				t.Errorf("opened as %q, %v", got, err)
			}
		})
	}
}

func TestTheFormatStays(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "sealed_v1.hex"))
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	secret := make([]byte, secretSize)
	for i := range secret {
		secret[i] = byte(i)
	}
	got, err := ring(t, Key{ID: 0x01020304, Secret: secret}).open(operation, sealed)
	if err != nil || string(got) != "the balance is EUR 12.50" {
		t.Errorf("a record of version 1 was opened as %q, %v", got, err)
	}
}

func TestWrongKeysAreAllReported(t *testing.T) {
	for _, tt := range []struct {
		name string
		keys []Key
		want []string
	}{
		{"none", nil, []string{"there is none"}},
		{"a short one", []Key{{ID: 1, Secret: make([]byte, 16)}}, []string{"keys[0]: Secret has 16 bytes"}},
		{"two of one ID, one without a secret", []Key{newKey(1), {ID: 1}}, []string{"keys[1]: Secret has 0 bytes", "keys[1]: ID 1"}},
	} {
		_, err := New(nil, tt.keys)
		for _, want := range append(tt.want, "store is nil") {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q in it", tt.name, err, want)
			}
		}
	}
}

func TestASecretIsNeverShown(t *testing.T) {
	k := Key{ID: 7, Secret: []byte("0123456789abcdef0123456789abcdef")}
	asJSON, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	secret := fmt.Sprintf("%v %d %x", k.Secret, k.Secret, k.Secret) + string(k.Secret)
	for _, shown := range []string{
		fmt.Sprint(k), fmt.Sprintf("%+v", k), fmt.Sprintf("%#v", k), fmt.Sprintf("%x", k), fmt.Sprintf("%d", k),
		fmt.Sprintf("%s", []Key{k}), string(asJSON),
	} {
		if strings.Contains(secret, shown) || strings.Contains(shown, "48") || strings.Contains(shown, "30") || strings.Contains(shown, "0123") {
			t.Errorf("shown as %s", shown)
		}
	}
}

func TestTheSecretsAreCopied(t *testing.T) {
	k := newKey(1)
	r := ring(t, k)
	sealed := mustSeal(t, r, []byte("paid"))
	clear(k.Secret)
	if _, err := r.open(operation, sealed); err != nil {
		t.Error(err)
	}
}

func FuzzOpen(f *testing.F) {
	r := ring(f, Key{ID: 1, Secret: make([]byte, secretSize)})
	f.Add([]byte{}, "order-42")
	f.Add([]byte{sealVersion}, "order-42")
	f.Add(make([]byte, headerSize+tagSize), "")
	f.Add(mustSeal(f, r, []byte("paid")), operation.ID)
	f.Fuzz(func(t *testing.T, data []byte, id string) {
		op := operation
		op.ID = id
		if record, err := r.open(op, data); err == nil && string(record) != "paid" {
			t.Errorf("made up: %q", record)
		}
		sealed, err := r.seal(op, data)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := r.open(op, sealed); err != nil || !bytes.Equal(got, data) {
			t.Errorf("opened as %q, %v", got, err)
		}
	})
}
