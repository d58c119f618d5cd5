package redisstore

import (
	"fmt"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/dedup"
)

// isFull says whether Redis refused a write because its memory is full.
func isFull(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "OOM") }

// explain says what was being done.
func explain(doing string, err error) error {
	if isFull(err) {
		return fmt.Errorf("redisstore: %s: %w: %w", doing, dedup.ErrFull, err)
	}
	return fmt.Errorf("redisstore: %s: %w", doing, err)
}

// longest is a hundred years. Two such durations can be added.
const longest = 100 * 365 * 24 * time.Hour

// checkDuration refuses what the store cannot measure.
func checkDuration(what string, d time.Duration) error {
	if d < time.Millisecond {
		return fmt.Errorf("redisstore: the %s of %v is shorter than a millisecond", what, d)
	}
	if d > longest {
		return fmt.Errorf("redisstore: the %s of %v is longer than %v", what, d, longest)
	}
	return nil
}

// millis rounds a duration up to Redis' unit.
func millis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

func duration(millis int64) time.Duration { return time.Duration(millis) * time.Millisecond }
