// Package currency knows the currencies of ISO 4217 and writes their amounts.
//
// An amount is an int64 in a currency's minor units, never a floating-point
// number: 1250 is EUR 12.50, JPY 1250 and BHD 1.250.
//
// golang.org/x/text/currency does not serve a ledger. Its digits are CLDR's,
// which say how an amount is usually shown (IQD without decimals), where
// ISO 4217 says what an amount is counted in (IQD in thousandths); and it
// takes withdrawn codes and lower case for valid.
package currency
