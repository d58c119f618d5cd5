package retry

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
)

// serviceConfig is what a gRPC service config says of retries.
type serviceConfig struct {
	methods  []methodConfig
	throttle *Budget
}

// methodConfig is one entry of methodConfig for one of its names.
type methodConfig struct {
	path    string // where it stands, for errors: "methodConfig[0].name[1]"
	pattern string
	rules   *rules
	timeout time.Duration // 0: none
}

// parseServiceConfig reads a service config by the rules of gRFC A6, and
// returns every mistake in it, each with the path of its field.
func parseServiceConfig(text string) (*serviceConfig, []error) {
	var raw struct {
		MethodConfig    []json.RawMessage `json:"methodConfig"`
		RetryThrottling *json.RawMessage  `json:"retryThrottling"`
	}
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return nil, []error{fmt.Errorf("not a service config in JSON: %w", err)}
	}
	r := &configReader{names: make(map[string]string)}
	for i, entry := range raw.MethodConfig {
		r.method(fmt.Sprintf("methodConfig[%d]", i), entry)
	}
	if raw.RetryThrottling != nil {
		r.throttling("retryThrottling", *raw.RetryThrottling)
	}
	return &r.config, r.errs
}

// configReader gathers what is read and every mistake.
type configReader struct {
	config serviceConfig
	names  map[string]string // pattern to the path that first said it
	errs   []error
}

func (r *configReader) wrong(path, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s: %w", path, fmt.Errorf(format, args...)))
}

// read decodes raw into v. It reports false where raw has another shape.
func (r *configReader) read(path string, raw json.RawMessage, v any) bool {
	err := json.Unmarshal(raw, v)
	if err == nil {
		return true
	}
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) {
		if mismatch.Field != "" {
			path += "." + mismatch.Field
		}
		r.wrong(path, "a JSON %s is no %v", mismatch.Value, mismatch.Type)
		return false
	}
	r.wrong(path, "%w", err)
	return false
}

func (r *configReader) method(path string, raw json.RawMessage) {
	var m struct {
		Name []struct {
			Service string `json:"service"`
			Method  string `json:"method"`
		} `json:"name"`
		Timeout       *string          `json:"timeout"`
		RetryPolicy   *json.RawMessage `json:"retryPolicy"`
		HedgingPolicy *json.RawMessage `json:"hedgingPolicy"`
	}
	if !r.read(path, raw, &m) {
		return
	}
	entry := methodConfig{rules: oneAttempt.rules()}
	if m.RetryPolicy != nil {
		entry.rules = r.retryPolicy(path+".retryPolicy", *m.RetryPolicy)
		if m.HedgingPolicy != nil {
			r.wrong(path, "only one of retryPolicy and hedgingPolicy may be set")
		}
	}
	if m.Timeout != nil {
		entry.timeout = r.duration(path+".timeout", m.Timeout)
	}
	for i, n := range m.Name {
		entry.path = fmt.Sprintf("%s.name[%d]", path, i)
		entry.pattern = r.pattern(entry.path, n.Service, n.Method)
		r.config.methods = append(r.config.methods, entry)
	}
}

// pattern returns the pattern of a name: a method, all methods of a service,
// or, for an empty name, every method.
func (r *configReader) pattern(path, service, method string) string {
	pattern := "*"
	switch {
	case service == "" && method != "":
		r.wrong(path, "a method needs its service")
		return ""
	case method != "":
		pattern = "/" + service + "/" + method
	case service != "":
		pattern = "/" + service + "/*"
	}
	if first, twice := r.names[pattern]; twice {
		r.wrong(path, "the same name as %s", first)
		return ""
	}
	r.names[pattern] = path
	return pattern
}

func (r *configReader) retryPolicy(path string, raw json.RawMessage) *rules {
	var p struct {
		MaxAttempts          *float64          `json:"maxAttempts"`
		InitialBackoff       *string           `json:"initialBackoff"`
		MaxBackoff           *string           `json:"maxBackoff"`
		BackoffMultiplier    *float64          `json:"backoffMultiplier"`
		RetryableStatusCodes []json.RawMessage `json:"retryableStatusCodes"`
	}
	if !r.read(path, raw, &p) {
		return nil
	}
	made := &rules{backoff: Backoff{
		Base: r.duration(path+".initialBackoff", p.InitialBackoff),
		Cap:  r.duration(path+".maxBackoff", p.MaxBackoff),
	}}
	made.maxAttempts = r.attempts(path+".maxAttempts", p.MaxAttempts)
	made.backoff.Multiplier = r.positive(path+".backoffMultiplier", p.BackoffMultiplier)
	if len(p.RetryableStatusCodes) == 0 {
		r.wrong(path+".retryableStatusCodes", "no code is named")
	}
	for i, raw := range p.RetryableStatusCodes {
		made.codes |= 1 << r.code(fmt.Sprintf("%s.retryableStatusCodes[%d]", path, i), raw)
	}
	return made
}

func (r *configReader) throttling(path string, raw json.RawMessage) {
	var t struct {
		MaxTokens  *float64 `json:"maxTokens"`
		TokenRatio *float64 `json:"tokenRatio"`
	}
	if !r.read(path, raw, &t) {
		return
	}
	b := Budget{
		MaxTokens:  r.positive(path+".maxTokens", t.MaxTokens),
		TokenRatio: r.positive(path+".tokenRatio", t.TokenRatio),
	}
	r.errs = append(r.errs, b.validate([2]string{path + ".maxTokens", path + ".tokenRatio"})...)
	r.config.throttle = &b
}

func (r *configReader) attempts(path string, n *float64) int {
	if n == nil {
		r.wrong(path, "missing")
		return 0
	}
	if *n != math.Trunc(*n) || *n < 2 || *n > math.MaxInt32 {
		r.wrong(path, "%v is not a whole number of at least 2", *n)
		return 0
	}
	return int(*n)
}

func (r *configReader) positive(path string, n *float64) float64 {
	if n == nil {
		r.wrong(path, "missing")
		return 0
	}
	if *n <= 0 {
		r.wrong(path, "%v is not above zero", *n)
		return 0
	}
	return *n
}

func (r *configReader) code(path string, raw json.RawMessage) codes.Code {
	var code codes.Code
	if err := code.UnmarshalJSON(raw); err != nil {
		r.wrong(path, "%s is no status code", raw)
		return codes.OK
	}
	if code == codes.OK {
		r.wrong(path, "OK is not the code of a failure")
	}
	return code
}

func (r *configReader) duration(path string, text *string) time.Duration {
	if text == nil {
		r.wrong(path, "missing")
		return 0
	}
	d, ok := parseDuration(*text)
	if !ok {
		r.wrong(path, "%q is no duration such as \"1.5s\"", *text)
		return 0
	}
	if d <= 0 {
		r.wrong(path, "%q is not above zero", *text)
		return 0
	}
	return d
}

// maxProtoSeconds bounds a google.protobuf.Duration.
const maxProtoSeconds = 315_576_000_000

// parseDuration reads the JSON form of google.protobuf.Duration: seconds with
// up to nine decimals and an "s". As protobuf's own reader does, it takes ".5s"
// and "+1s" too; as grpc-go does, it takes what is longer than a time.Duration
// for the longest one.
func parseDuration(text string) (time.Duration, bool) {
	number, ok := strings.CutSuffix(text, "s")
	if !ok {
		return 0, false
	}
	number, negative := strings.CutPrefix(number, "-")
	if !negative {
		number = strings.TrimPrefix(number, "+")
	}
	whole, fraction, _ := strings.Cut(number, ".")
	if whole+fraction == "" || len(fraction) > 9 || strings.Trim(whole+fraction, "0123456789") != "" {
		return 0, false
	}
	seconds, err := strconv.ParseInt("0"+whole, 10, 64)
	if err != nil || seconds > maxProtoSeconds {
		return 0, false
	}
	nanos, err := strconv.ParseInt("0"+fraction+strings.Repeat("0", 9-len(fraction)), 10, 64)
	if err != nil {
		return 0, false
	}
	d := time.Duration(math.MaxInt64)
	if seconds < math.MaxInt64/int64(time.Second) {
		d = time.Duration(seconds)*time.Second + time.Duration(nanos)
	}
	if negative {
		d = -d
	}
	return d, true
}
