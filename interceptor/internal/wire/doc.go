// Package wire holds what the suite sends and reads on the wire: metadata
// names, the reasons of its own errors, and pushback.
//
// Any language can speak it. Names and values are part of the contract and
// change with a new major version only; a golden file pins them.
package wire
