// Package storetest is the conformance suite of [dedup.Store].
package storetest
