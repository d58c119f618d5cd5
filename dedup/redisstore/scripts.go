package redisstore

import (
	"context"
	"crypto/sha1" // as Redis names its scripts
	_ "embed"
	"encoding/hex"
	"strings"
)

// script is a Lua script, whose reply is an integer.
type script struct{ source, sha1 string }

func newScript(source string) script {
	sum := sha1.Sum([]byte(source))
	return script{source: source, sha1: hex.EncodeToString(sum[:])}
}

//go:embed lua/judge.lua
var judgeSource string

//go:embed lua/settle.lua
var settleSource string

//go:embed lua/renew.lua
var renewSource string

//go:embed lua/watch.lua
var watchSource string

var (
	judgeScript    = newScript(judgeSource)
	completeScript = newScript(settleSource)
	// A release adds nothing, so it goes through where the memory is full.
	releaseScript = newScript("#!lua flags=allow-oom\n" + settleSource)
	renewScript   = newScript(renewSource)
	watchScript   = newScript(watchSource)
)

// run runs a script, which the server forgets when it restarts or fails over.
func (s *Store) run(ctx context.Context, script script, keys []string, args ...string) (int64, error) {
	reply, err := s.driver.EvalSha(ctx, script.sha1, keys, args)
	if err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") {
		return s.driver.Eval(ctx, script.source, keys, args)
	}
	return reply, err
}
