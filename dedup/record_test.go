package dedup

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
)

var update = flag.Bool("update", false, "write the golden files anew")

func fullOutcome() Outcome {
	return Outcome{
		Code:     codes.FailedPrecondition,
		Message:  "balance is 12.00 below what is asked for – nothing was debited",
		Details:  []Payload{{Type: "google.rpc.ErrorInfo", Value: []byte{1, 2, 3}}, {Type: "empty"}},
		Response: Payload{Type: "ledger.v1.DebitResponse", Value: []byte{0, 255, 128}},
		Header:   map[string][]string{"x-region": {"eu"}, "trace-bin": {"\x00\xff", ""}, "a-none": nil},
		Trailer:  map[string][]string{"x-cost": {"1", "2"}},
	}
}

func TestRecordIsAsTheGoldenFilePinsIt(t *testing.T) {
	golden := filepath.Join("testdata", "record_v1.hex")
	var got strings.Builder
	full := fullOutcome()
	for _, r := range [][]byte{encodeRecord(&Outcome{}), encodeRecord(&full), tooLargeRecord()} {
		got.WriteString(hex.EncodeToString(r) + "\n")
	}
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Fatalf("the form of records has changed:\n got %s\nwant %s", got.String(), want)
	}
	old, err := hex.DecodeString(strings.Split(string(want), "\n")[1])
	if err != nil {
		t.Fatal(err)
	}
	if o, err := decodeRecord(old); err != nil || !reflect.DeepEqual(o, full) {
		t.Fatalf("decoded %+v, %v", o, err)
	}
}

func TestRecordKeepsEveryOutcome(t *testing.T) {
	for name, o := range map[string]Outcome{
		"zero":             {},
		"full":             fullOutcome(),
		"largest code":     {Code: 1<<32 - 1},
		"long message":     {Message: strings.Repeat("é", 1000)},
		"many details":     {Details: make([]Payload, 300)},
		"an empty key":     {Header: map[string][]string{"": {""}}},
		"message not UTF8": {Message: "\xff\xfe"},
	} {
		t.Run(name, func(t *testing.T) {
			record := encodeRecord(&o)
			if len(record) != recordSize(&o) {
				t.Errorf("record has %d bytes, recordSize says %d", len(record), recordSize(&o))
			}
			got, err := decodeRecord(record)
			if err != nil || !reflect.DeepEqual(got, o) {
				t.Fatalf("got %+v, %v; want %+v", got, err, o)
			}
		})
	}
}

func TestRecordSharesNoMemoryWithWhatIsDecoded(t *testing.T) {
	o := fullOutcome()
	record := encodeRecord(&o)
	got, err := decodeRecord(record)
	if err != nil {
		t.Fatal(err)
	}
	clear(record)
	if !reflect.DeepEqual(got, o) {
		t.Fatalf("the outcome changed with its record: %+v", got)
	}
}

func TestDamagedRecordsAreUnreadable(t *testing.T) {
	o := fullOutcome()
	record := encodeRecord(&o)
	for n := range record {
		if _, err := decodeRecord(record[:n]); !errors.Is(err, ErrRecordUnreadable) {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
	}
	for bit := range 8 * len(record) {
		b := bytes.Clone(record)
		b[bit/8] ^= 1 << (bit % 8)
		if _, err := decodeRecord(b); !errors.Is(err, ErrRecordUnreadable) {
			t.Fatalf("bit %d turned: %v", bit, err)
		}
	}
}

func TestRecordsThatNoEncoderWritesAreUnreadable(t *testing.T) {
	for name, b := range map[string][]byte{
		"an unknown version":            {2, 1, 0, 0, 0, 0, 0, 0, 0},
		"an unknown kind":               {1, 3},
		"a marker with more":            {1, 2, 0},
		"an outcome with more":          {1, 1, 0, 0, 0, 0, 0, 0, 0, 0},
		"an outcome with less":          {1, 1, 0, 0, 0, 0, 0, 0},
		"a padded integer":              {1, 1, 0x80, 0, 0, 0, 0, 0, 0, 0},
		"an integer without an end":     {1, 1, 0x80, 0x80},
		"a code that is too large":      {1, 1, 0x80, 0x80, 0x80, 0x80, 0x10, 0, 0, 0, 0, 0, 0},
		"a message longer than it all":  {1, 1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f},
		"more details than bytes":       {1, 1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 0},
		"metadata keys out of order":    {1, 1, 0, 0, 0, 0, 0, 2, 1, 'b', 0, 1, 'a', 0, 0},
		"a metadata key twice":          {1, 1, 0, 0, 0, 0, 0, 2, 1, 'a', 0, 1, 'a', 0, 0},
		"more metadata keys than bytes": {1, 1, 0, 0, 0, 0, 0, 9, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if o, err := decodeRecord(appendSum(b)); !errors.Is(err, ErrRecordUnreadable) {
				t.Fatalf("got %+v, %v", o, err)
			}
		})
	}
}

func TestMarkerOfAnOutcomeTooLarge(t *testing.T) {
	if _, err := decodeRecord(tooLargeRecord()); !errors.Is(err, ErrTooLarge) {
		t.Fatal(err)
	}
}

func FuzzDecode(f *testing.F) {
	full := fullOutcome()
	for _, r := range [][]byte{encodeRecord(&Outcome{}), encodeRecord(&full), tooLargeRecord()} {
		f.Add(r[:len(r)-recordSumSize], true)
		f.Add(r, false)
	}
	f.Fuzz(func(t *testing.T, record []byte, sum bool) {
		if sum {
			record = appendSum(bytes.Clone(record))
		}
		o, err := decodeRecord(record)
		switch {
		case errors.Is(err, ErrRecordUnreadable):
		case errors.Is(err, ErrTooLarge):
			if !bytes.Equal(record, tooLargeRecord()) {
				t.Fatalf("a second form of the marker: %x", record)
			}
		case err != nil:
			t.Fatal(err)
		default:
			if again := encodeRecord(&o); !bytes.Equal(again, record) {
				t.Fatalf("decoded from %x, encodes to %x", record, again)
			}
		}
	})
}
