package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// oldest is the first version whose SET knows NX together with GET.
const oldest = 7

// checkServers refuses servers that would break the store's promise.
func checkServers(ctx context.Context, driver Driver) error {
	replies, err := driver.Info(ctx)
	if err != nil {
		return fmt.Errorf("redisstore: ask the server for INFO: %w", err)
	}
	if len(replies) == 0 {
		return errors.New("redisstore: the client knows no master")
	}
	var errs []error
	for _, info := range replies {
		errs = append(errs, checkVersion(info), checkEviction(info))
	}
	return errors.Join(errs...)
}

func checkVersion(info string) error {
	version := field(info, "redis_version")
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < oldest {
		return fmt.Errorf("redisstore: the server is Redis %q, which is not 7.0 or newer", version)
	}
	return nil
}

func checkEviction(info string) error {
	policy := field(info, "maxmemory_policy")
	if policy == "noeviction" {
		return nil
	}
	return fmt.Errorf("redisstore: the server's maxmemory-policy is %q: "+
		"it would forget operations that are not over; set it to noeviction", policy)
}

// field returns the value of a line of INFO.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, found := strings.CutPrefix(line, name+":"); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
