// Package faults breaks calls on purpose.
//
// An [Injector] breaks them in the server: a response is lost after the work
// is done, a burst of calls is refused before it, an attempt takes longer than
// its client waits, an execution stops between its work and its record. A
// [Proxy] stands between client and server and cuts connections.
package faults
