package measure

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var background = context.Background()

func TestARatioIsTakenWithinItsRound(t *testing.T) {
	// The machine becomes ten times slower and the ratio stays.
	c := Comparison{"a": {1, 10, 100}, "b": {2, 20, 200}}
	if got := c.Ratio("a", "b"); got != Exactly(0.5) {
		t.Errorf("the ratio is %v", got)
	}
	c.Derive("difference", "b", "a", func(b, a float64) float64 { return b - a })
	if got := c.Of("difference").Median; got != 10 {
		t.Errorf("the difference is %v", got)
	}
	if got := c.Ratio("a", "nobody").Median; !math.IsNaN(got) {
		t.Errorf("the ratio to what there is not is %v", got)
	}
}

func TestOneWildRoundChangesNoMedian(t *testing.T) {
	c := Comparison{"a": {3, 3, 900, 3, 3}, "b": {2, 2, 2, 2, 2}}
	if got := c.Ratio("a", "b").Median; got != 1.5 {
		t.Errorf("the median is %v", got)
	}
}

func TestACutPlanKeepsItsTime(t *testing.T) {
	got := Plan{Rounds: 15, Round: 200 * time.Millisecond}.Cut(time.Millisecond)
	if got.Rounds != 3000 || got.Round != time.Millisecond {
		t.Errorf("15 rounds of 200 ms are cut into %d of %v", got.Rounds, got.Round)
	}
	if short := (Plan{Rounds: 1, Round: time.Microsecond}); short.Cut(time.Millisecond) != short {
		t.Error("what is short was cut")
	}
}

func TestQuantilesInterpolate(t *testing.T) {
	if got := spread([]float64{4, 1, 3, 2}); got != (Spread{1.75, 2.5, 3.25}) {
		t.Errorf("the spread is %v", got)
	}
	if got := spread(nil).Median; !math.IsNaN(got) {
		t.Errorf("the median of nothing is %v", got)
	}
}

func TestWaysTakeTurnsAndTheFirstRoundIsThrownAway(t *testing.T) {
	var order strings.Builder
	way := func(name string) Way {
		return Way{Name: name, Round: func(context.Context, time.Duration) (float64, error) {
			order.WriteString(name)
			return float64(order.Len()), nil
		}}
	}
	c, err := Plan{Rounds: 2}.Compare(background, way("a"), way("b"), way("c"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := order.String(), "abc"+"bca"+"cab"; got != want {
		t.Errorf("the order is %s, want %s", got, want)
	}
	if got := c["a"]; len(got) != 2 || got[0] != 6 {
		t.Errorf("the values of a are %v", got)
	}
}

func TestAWayThatFailsEndsTheComparison(t *testing.T) {
	broken := errors.New("broken")
	for _, way := range []Way{
		Loop("way", func() error { return broken }),
		Share("way", 2, func() error { return broken }),
		Throughput("way", 2, func(context.Context) error { return broken }),
		Latency("way", 2, 0.5, func(context.Context) (time.Duration, error) { return 0, broken }),
	} {
		if _, err := (Plan{Rounds: 1, Round: time.Millisecond}).Compare(background, way); !errors.Is(err, broken) {
			t.Errorf("the error is %v", err)
		}
	}
}

func TestWhatWaysGive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op := func(context.Context) error { time.Sleep(time.Millisecond); return nil }
		alone := func() error { return op(background) }
		for _, tt := range []struct {
			way  Way
			want float64
		}{
			{Loop("ns/op", alone), 1e6},
			{Share("ns/op of four", 4, alone), 0.25e6},
			{Throughput("of four", 4, op), 4000},
			{Latency("p99", 4, 0.99, func(ctx context.Context) (time.Duration, error) {
				began := time.Now()
				err := op(ctx)
				return time.Since(began), err
			}), 1e6},
		} {
			got, err := tt.way.Round(background, 10*time.Millisecond)
			if err != nil || got != tt.want {
				t.Errorf("%s: %v and error %v, want %v", tt.way.Name, got, err, tt.want)
			}
		}
	})
}

func TestCost(t *testing.T) {
	var kept []byte
	op := func() error { kept = make([]byte, 64); return nil }
	allocs, err1 := Allocs(op)
	bytes, err2 := Bytes(op)
	if err := errors.Join(err1, err2); err != nil || len(kept) != 64 {
		t.Fatal(err)
	}
	if allocs != 1 || bytes != 64 {
		t.Errorf("%v allocations and %v bytes", allocs, bytes)
	}
}

func TestTheTableCountsWhatFails(t *testing.T) {
	var out strings.Builder
	table := NewTable(&out)
	figure := func(v float64, l Limit) Figure { return Figure{What: "w", Value: Exactly(v), Unit: Times, Limit: l} }
	table.Add("1", []Finding{
		{figure(1, AtMost(2))},
		{figure(3, AtMost(2)), figure(3, AtLeast(2))},
		{figure(9, Limit{})},
	}, nil)
	table.Add("2", []Finding{{figure(3, AtMost(2))}, {figure(1, AtLeast(2)), figure(1, Equal(2))}}, nil)
	table.Add("3", []Finding{{figure(math.NaN(), AtMost(2))}}, errors.New("broken"))
	n, err := table.Close()
	if err != nil || n != 4 {
		t.Errorf("%d failed, with error %v, want 4", n, err)
	}
	for want, times := range map[string]int{passed: 2, failed: 5, notNeeded: 1, "error: broken": 1} {
		if got := strings.Count(out.String(), want); got != times {
			t.Errorf("%q stands there %d times, want %d:\n%s", want, got, times, out.String())
		}
	}
}

func TestUnitsAreWritten(t *testing.T) {
	for _, tt := range []struct {
		unit  Unit
		value float64
		want  string
	}{
		{Count, 4, "4"}, {Count, 12.25, "12.2"}, {Times, 0.751, "0.75x"},
		{Nanoseconds, 52.34, "52.3 ns"}, {Nanoseconds, 2500, "2.5 µs"}, {Nanoseconds, 2.5e6, "2.50 ms"}, {Nanoseconds, 2.5e9, "2.50 s"},
		{PerSecond, 1234567.8, "1,234,568/s"}, {Byte, 208, "208 B"}, {Byte, 1000, "1,000 B"}, {Count, -123456, "-123,456"}, {Count, -123, "-123"},
	} {
		if got := tt.unit.Format(tt.value); got != tt.want {
			t.Errorf("%v is written %q, want %q", tt.value, got, tt.want)
		}
	}
}
