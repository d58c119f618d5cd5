// Package measure compares ways of doing the same thing on a machine that is
// not quiet.
//
// The ways take turns, round after round, so that what slows the machine down
// slows all of them. A ratio is taken within each round, between neighbours in
// time, and the median of the rounds' ratios is what counts. The first round
// warms up and is thrown away.
package measure
