package redisstore

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/dedup"
)

func sample() header {
	return header{
		state:       completed,
		owner:       dedup.Owner([]byte("sixteen bytes 16")),
		fence:       0x0102030405060708,
		attempt:     0x090a0b0c,
		fingerprint: dedup.FingerprintBytes([]byte("debit")),
		retention:   86_400_000,
	}
}

func TestTheFormatIsAsItsGoldenFileHasIt(t *testing.T) {
	golden, err := os.ReadFile("testdata/value_v1.hex")
	if err != nil {
		t.Fatal(err)
	}
	want, err := hex.DecodeString(strings.Join(strings.Fields(string(golden)), ""))
	if err != nil {
		t.Fatal(err)
	}
	value := sample().withRecord([]byte("record"))
	if !bytes.Equal([]byte(value), want) {
		t.Errorf("wrote\n%x, want\n%x", value, want)
	}
	got, err := parse(string(want))
	if err != nil || got != sample() {
		t.Errorf("read %+v and %v, want %+v", got, err, sample())
	}
}

func TestNamesAreAsInEarlierVersions(t *testing.T) {
	got := digest(dedup.Key{Scope: "tenant", Method: "/ledger.v1.LedgerService/Debit", ID: "order-42"})
	if want := "mdO_gOl24wZDO1-LktpuD5XXtB_xANLwA5sfOiedLu4"; got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
}

func TestASuccessorsFenceRisesWhateverTheClockSays(t *testing.T) {
	future := sample()
	future.fence = 1 << 62
	next := future.successor(dedup.ClaimRequest{})
	if next.fence != future.fence+1 || next.attempt != future.attempt+1 {
		t.Errorf("fence %d and attempt %d, want %d and %d", next.fence, next.attempt, future.fence+1, future.attempt+1)
	}
	past := sample()
	past.fence = 1
	if next := past.successor(dedup.ClaimRequest{}); next.fence < newHeader(dedup.ClaimRequest{}).fence-60_000_000 {
		t.Errorf("fence %d is not the time", next.fence)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(sample().withRecord([]byte("record"))))
	f.Add([]byte(sample().text(claimed)))
	f.Add([]byte(sample().text(released)))
	f.Add([]byte(""))
	f.Add([]byte{valueVersion, 'C'})
	f.Fuzz(func(t *testing.T, value []byte) {
		h, err := parse(string(value))
		if err != nil {
			if !errors.Is(err, dedup.ErrRecordUnreadable) {
				t.Fatalf("error %v, want ErrRecordUnreadable", err)
			}
			return
		}
		written := h.text(h.state)
		if h.state == completed {
			written = h.withRecord(value[headerSize:])
		}
		if written != string(value) {
			t.Fatalf("read %x, which is written as %x", value, written)
		}
	})
}
