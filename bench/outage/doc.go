// Package outage simulates what clients do to a server that comes back: ten
// thousand of them, with the real retry interceptor, in virtual time. Its one
// test runs the simulation, checks what docs/scaling.md says of it, and logs
// the table that stands there:
//
//	cd bench && go test -v -run TestOutage ./outage
//
// The model. Each client makes a call a second, at its own moment, and waits
// for its answer first. The server answers at most so many a second, in the
// order in which they come, and refuses what would wait longer than its queue
// allows. Then it hangs: it accepts calls and answers none. After a second it
// dies, all at once, and refuses everything for some seconds more. Then it is
// back, with its full capacity.
//
// What the model leaves out: the network, connecting anew, and a server that
// is slower when it has just started. Each of them makes a herd worse.
package outage
