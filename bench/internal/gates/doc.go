// Package gates measures what retrysafe promises of its speed, one gate in one
// file, each beside what people use or would write instead.
package gates
