package torture

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
)

// step is a place between receiving a request and sending its response.
type step string

const (
	requestReceived step = "request received"
	beforeClaim     step = "before the claim"
	afterClaim      step = "after the claim"
	handlerBegins   step = "the handler begins"
	writesBegin     step = "the handler's transaction begins"
	writesDone      step = "the handler's writes are done"
	handlerEnds     step = "the handler ends"
	beforeComplete  step = "before the outcome is recorded"
	afterComplete   step = "after the outcome is recorded"
	responseReady   step = "the response is ready"
	responseSent    step = "the response is handed to the transport"

	// Of an execution that takes longer than a third of its lease.
	beforeRenew step = "before the lease is renewed"
	afterRenew  step = "after the lease is renewed"

	// Of an execution that answers UNAVAILABLE.
	beforeRelease step = "before the claim is released"
	afterRelease  step = "after the claim is released"
)

// statements is how many a debit makes: it reads both accounts, updates both,
// and writes the transaction and two entries.
const statements = 7

func statement(n int) step { return step(fmt.Sprintf("after the handler's statement %d", n)) }

// steps are those that every debit passes, in their order.
func steps() []step {
	all := []step{requestReceived, beforeClaim, afterClaim, handlerBegins, writesBegin}
	for n := range statements {
		all = append(all, statement(n+1))
	}
	return append(all, writesDone, handlerEnds, beforeComplete, afterComplete, responseReady, responseSent)
}

// plan says what a server does to itself.
type plan struct {
	// Step is where; none: nothing.
	Step step
	// Nth is the passing of the step at which it does it, from 1.
	Nth int64
	// Freeze: it is stopped there for a while rather than killed.
	Freeze bool
}

// mine lies at a step of the server that carries out the plan.
type mine struct {
	plan
	// goOn has room for the word to go on after a freeze.
	goOn   chan struct{}
	passed atomic.Int64
}

// pass is called at every step.
func (m *mine) pass(at step) {
	if at != m.Step || m.passed.Add(1) != m.Nth {
		return
	}
	tell("reached", string(at))
	if m.Freeze { // the process that started this one stops it meanwhile
		<-m.goOn
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // it is allowed to
	select {}                                      // the signal is on its way
}

// tell tells the process that started this one, on a line of its standard
// output.
func tell(what, detail string) { fmt.Fprintf(os.Stdout, "%s\t%s\n", what, detail) }
