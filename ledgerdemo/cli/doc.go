// Package cli is the command line of ledgerdemo.
package cli
