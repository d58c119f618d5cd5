package currency

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// What [Parse] answers for what is not an amount.
var (
	// ErrUnknown: no currency in use has that code.
	ErrUnknown = errors.New("currency: not an ISO 4217 code in use")
	// ErrAmount: the text is not an amount of that currency.
	ErrAmount = errors.New("currency: not an amount")
)

// Parse reads an amount such as "12.50" in minor units. It takes an optional
// minus, digits, and at most as many decimals as the currency has; nothing is
// ever rounded. The error wraps [ErrUnknown] or [ErrAmount].
func Parse(amount, code string) (int64, error) {
	digits, ok := Digits(code)
	if !ok {
		return 0, fmt.Errorf("%w: %q", ErrUnknown, code)
	}
	unsigned, negative := strings.CutPrefix(amount, "-")
	whole, decimals, point := strings.Cut(unsigned, ".")
	if !isNumber(whole) || point && !isNumber(decimals) {
		return 0, fmt.Errorf("%w: %q: write it as 12 or 12.50", ErrAmount, amount)
	}
	if len(decimals) > digits {
		return 0, fmt.Errorf("%w: %q: %s has %d decimals", ErrAmount, amount, code, digits)
	}
	text := whole + decimals + strings.Repeat("0", digits-len(decimals))
	if negative {
		text = "-" + text
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %q is too large", ErrAmount, amount)
	}
	return n, nil
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// Format writes an amount in minor units with its currency, such as
// "EUR 12.50". An unknown currency's amount is written in minor units.
func Format(minorUnits int64, code string) string {
	digits, _ := Digits(code)
	text, negative := strings.CutPrefix(strconv.FormatInt(minorUnits, 10), "-")
	if missing := digits + 1 - len(text); missing > 0 {
		text = strings.Repeat("0", missing) + text
	}
	if digits > 0 {
		text = text[:len(text)-digits] + "." + text[len(text)-digits:]
	}
	if negative {
		text = "-" + text
	}
	return code + " " + text
}
