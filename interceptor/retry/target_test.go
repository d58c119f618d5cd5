package retry

import (
	"fmt"
	"testing"
)

func TestTargetsWithAHistoryAreKept(t *testing.T) {
	targets := targets{budget: &Budget{MaxTokens: 10, TokenRatio: 0.1}}
	troubled := targets.add("troubled", "troubled")
	troubled.bucket.take()
	for i := range 3 * maxTargets {
		name := fmt.Sprint(i)
		targets.add(name, name)
	}
	if targets.count > maxTargets {
		t.Errorf("%d targets are remembered, more than %d", targets.count, maxTargets)
	}
	if targets.add("troubled", "troubled") != troubled {
		t.Error("a target with a history is forgotten")
	}
}

func TestPlansAreBounded(t *testing.T) {
	p := planner{fallback: Policy{}.rules()}
	for i := range 2 * maxPlans {
		if p.plan(fmt.Sprintf("/made.Up/M%d", i)).rules != p.fallback {
			t.Fatal("a plan has other rules")
		}
	}
	if n := len(*p.plans.Load()); n != maxPlans {
		t.Errorf("%d plans are kept, want %d", n, maxPlans)
	}
}
