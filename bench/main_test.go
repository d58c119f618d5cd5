package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/bench/internal/gates"
)

func TestWhatIsSaidWrongIsRefused(t *testing.T) {
	for _, args := range [][]string{
		{"-run", "("}, {"-rounds", "0"}, {"-round", "1us"}, {"postgres"}, {"-run", "no such gate"},
	} {
		if err := run(context.Background(), args, io.Discard, io.Discard); err == nil || errors.Is(err, errFailed) {
			t.Errorf("%v: the error is %v", args, err)
		}
	}
	if err := run(context.Background(), []string{"-h"}, io.Discard, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h: the error is %v", err)
	}
}

func TestGatesAreSelectedByName(t *testing.T) {
	for pattern, want := range map[string]string{
		".": "", "^0[56]": "05-no-time-left 06-jitter-and-budget", "sqlite": "12-sqlite-group-commit",
	} {
		var out strings.Builder
		if err := run(context.Background(), []string{"-list", "-run", pattern}, &out, io.Discard); err != nil {
			t.Fatal(err)
		}
		listed := strings.Fields(out.String())
		if pattern == "." {
			if len(listed) != len(gates.All()) {
				t.Errorf("%d of %d gates are listed", len(listed), len(gates.All()))
			}
			continue
		}
		if !slices.Equal(listed, strings.Fields(want)) {
			t.Errorf("-run %s lists %v, want %s", pattern, listed, want)
		}
	}
}

// The gates that need no server and no time of their own keep the harness
// honest: what is counted here holds on any machine.
func TestAGateIsJudged(t *testing.T) {
	var out strings.Builder
	if err := run(context.Background(), []string{"-short", "-run", "05-no-time-left"}, &out, io.Discard); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if got := strings.Count(out.String(), "pass"); got != 2 {
		t.Errorf("%d figures pass, want 2:\n%s", got, out.String())
	}
}

func TestAnInterruptEndsTheRunWithItsTable(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out strings.Builder
	if err := run(ctx, nil, &out, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	if !strings.Contains(out.String(), "verdict") {
		t.Errorf("there is no table:\n%s", out.String())
	}
}
