package faults

import (
	"errors"
	"fmt"
	"time"
)

// Plan says which faults an [Injector] makes. The zero Plan makes none.
type Plan struct {
	// LoseResponses is the share of calls, 0 to 1, whose response is lost
	// after they were executed.
	LoseResponses float64
	// SlowAttempts is the share of calls, 0 to 1, that take SlowBy longer, half
	// of them before they are executed and half after.
	SlowAttempts float64
	SlowBy       time.Duration
	// HoldRecords is the share of executions, 0 to 1, that are held up by HoldBy
	// between the handler and the recording of its outcome: there a crash
	// leaves an effect without an outcome, where these are not one transaction.
	HoldRecords float64
	HoldBy      time.Duration
	// Of every BurstEvery calls, the last BurstLength in a row are refused with
	// UNAVAILABLE before they are executed. 0 for both: no bursts.
	BurstEvery, BurstLength int
	// Seed makes the choice of calls repeatable, as far as their order is.
	Seed uint64
}

// Validate returns everything that is wrong with the plan.
func (p Plan) Validate() error {
	var errs []error
	share := func(name string, v float64) {
		if !(v >= 0 && v <= 1) { // NaN too
			errs = append(errs, fmt.Errorf("faults: %s: %v is not between 0 and 1", name, v))
		}
	}
	share("LoseResponses", p.LoseResponses)
	share("SlowAttempts", p.SlowAttempts)
	share("HoldRecords", p.HoldRecords)
	if p.SlowBy < 0 {
		errs = append(errs, fmt.Errorf("faults: SlowBy: %v is negative", p.SlowBy))
	}
	if p.HoldBy < 0 {
		errs = append(errs, fmt.Errorf("faults: HoldBy: %v is negative", p.HoldBy))
	}
	if p.BurstEvery < 0 || p.BurstLength < 0 || p.BurstLength > 0 && p.BurstLength >= p.BurstEvery {
		errs = append(errs, fmt.Errorf("faults: BurstLength: %d of every %d calls leaves none to succeed", p.BurstLength, p.BurstEvery))
	}
	return errors.Join(errs...)
}
