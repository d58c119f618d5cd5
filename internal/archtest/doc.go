// Package archtest keeps the layers of the module apart. It is nothing but a
// test: what each layer may import stands in its rules.
package archtest
