package currency

import "strings"

// codes holds the codes in use of ISO 4217, list one, by the number of
// decimals of their minor unit. Codes that have no minor unit, such as those
// of metals, cannot be counted and are left out.
var codes = [...]string{
	0: `BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF`,
	2: `AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BOV BRL BSD BTN BWP BYN BZD
	    CAD CDF CHE CHF CHW CNY COP COU CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP
	    GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK
	    LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO
	    NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS
	    SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD USN UYU UZS VED VES WST
	    XAD XCD XCG YER ZAR ZMW ZWG`,
	3: `BHD IQD JOD KWD LYD OMR TND`,
	4: `CLF UYW`,
}

var digitsOf = index()

func index() map[string]int {
	all := make(map[string]int, 200)
	for digits, list := range codes {
		for code := range strings.FieldsSeq(list) {
			all[code] = digits
		}
	}
	return all
}

// Digits returns how many decimals the currency with that ISO 4217 code has,
// or false where there is no such currency. Codes are in capitals.
func Digits(code string) (int, bool) {
	d, ok := digitsOf[code]
	return d, ok
}
