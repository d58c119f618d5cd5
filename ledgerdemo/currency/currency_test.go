package currency

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestEveryCodeStandsOnceAndIsThreeCapitals(t *testing.T) {
	seen := map[string]bool{}
	for _, list := range codes {
		for code := range strings.FieldsSeq(list) {
			if len(code) != 3 || strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
				t.Errorf("%q is not a code", code)
			}
			if seen[code] {
				t.Errorf("%s stands twice", code)
			}
			seen[code] = true
		}
	}
	if len(seen) != len(digitsOf) || len(seen) < 160 {
		t.Errorf("%d codes in the table, %d in the index", len(seen), len(digitsOf))
	}
}

func TestDigitsAreISOs(t *testing.T) {
	want := map[string]int{"EUR": 2, "JPY": 0, "IQD": 3, "BHD": 3, "CLF": 4, "ISK": 0, "AFN": 2, "ZWG": 2}
	for code, digits := range want {
		if got, ok := Digits(code); !ok || got != digits {
			t.Errorf("Digits(%s) = %d, %t, want %d", code, got, ok, digits)
		}
	}
	for _, code := range []string{"", "eur", "EURO", "DEM", "XXX", "XAU", "ANG", "E R"} {
		if _, ok := Digits(code); ok {
			t.Errorf("%q is taken for a currency in use", code)
		}
	}
}

func TestParse(t *testing.T) {
	tests := []struct {
		amount, code string
		want         int64
		err          error
	}{
		{"12.50", "EUR", 1250, nil},
		{"12.5", "EUR", 1250, nil},
		{"12", "EUR", 1200, nil},
		{"0.01", "EUR", 1, nil},
		{"-0.01", "EUR", -1, nil},
		{"007", "JPY", 7, nil},
		{"1.250", "BHD", 1250, nil},
		{"92233720368547758.07", "EUR", math.MaxInt64, nil},
		{"-92233720368547758.08", "EUR", math.MinInt64, nil},
		{"92233720368547758.08", "EUR", 0, ErrAmount},
		{"12.505", "EUR", 0, ErrAmount},
		{"12.0", "JPY", 0, ErrAmount},
		{"12.", "EUR", 0, ErrAmount},
		{".5", "EUR", 0, ErrAmount},
		{"", "EUR", 0, ErrAmount},
		{"-", "EUR", 0, ErrAmount},
		{"--1", "EUR", 0, ErrAmount},
		{"+1", "EUR", 0, ErrAmount},
		{"1,000", "EUR", 0, ErrAmount},
		{"1e3", "EUR", 0, ErrAmount},
		{"0x10", "EUR", 0, ErrAmount},
		{"1_000", "EUR", 0, ErrAmount},
		{"1.2.3", "EUR", 0, ErrAmount},
		{" 1", "EUR", 0, ErrAmount},
		{"1.-5", "EUR", 0, ErrAmount},
		{"٣", "EUR", 0, ErrAmount},
		{"1", "EURO", 0, ErrUnknown},
	}
	for _, tt := range tests {
		got, err := Parse(tt.amount, tt.code)
		if got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("Parse(%q, %s) = %d, %v, want %d, %v", tt.amount, tt.code, got, err, tt.want, tt.err)
		}
	}
}

func FuzzParseReadsWhatFormatWrites(f *testing.F) {
	for _, n := range []int64{0, 1, -1, 99, 100, -100, math.MaxInt64, math.MinInt64} {
		f.Add(n, uint8(n))
	}
	byDigits := []string{"JPY", "EUR", "BHD", "CLF"}
	f.Fuzz(func(t *testing.T, n int64, pick uint8) {
		code := byDigits[int(pick)%len(byDigits)]
		amount := strings.TrimPrefix(Format(n, code), code+" ")
		if got, err := Parse(amount, code); err != nil || got != n {
			t.Errorf("Parse(%q, %s) = %d, %v, want %d", amount, code, got, err, n)
		}
	})
}

func Example() {
	n, err := Parse("12.5", "EUR")
	fmt.Println(n, err)
	fmt.Println(Format(n, "EUR"))
	fmt.Println(Format(n, "JPY"))
	// Output:
	// 1250 <nil>
	// EUR 12.50
	// JPY 1250
}
