package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/retrysafe/retrysafe/dedup"
	ledgerv1 "github.com/retrysafe/retrysafe/gen/ledger/v1"
	"github.com/retrysafe/retrysafe/interceptor/idempotency"
	"github.com/retrysafe/retrysafe/interceptor/retry"
)

// replayedHeader is in the header, or in the trailer of an error, where an
// answer is a replay.
const replayedHeader = "idempotency-replayed"

// clientFlags are those of every command that calls the server.
type clientFlags struct {
	addr    string
	timeout time.Duration
}

func (f *clientFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&f.addr, "addr", defaultAddr, "address of the server")
	c.Flags().DurationVar(&f.timeout, "timeout", 20*time.Second, "how long to try, all attempts together")
}

// keyFlag is that of every command that changes something.
type keyFlag struct{ key string }

// check refuses an empty key, which a script's unset variable gives: a new one
// in its place would do again what was done.
func (f *keyFlag) check(c *cobra.Command) error {
	if f.key == "" && c.Flags().Changed("key") {
		return usage(c, errors.New("--key: is empty; leave it out for a new one"))
	}
	return nil
}

func (f *keyFlag) register(c *cobra.Command) {
	c.Flags().StringVar(&f.key, "key", "", "idempotency key, 1 to 255 visible ASCII characters; the same key never does it twice (default: a new one)")
}

// caller makes calls by hand: by the policy in the ledger's .proto, and with
// a line on standard error for each retry.
type caller struct {
	conn     *grpc.ClientConn
	ledger   ledgerv1.LedgerServiceClient
	stderr   io.Writer
	attempts int
	header   metadata.MD
	trailer  metadata.MD
}

func (a *app) dial(cmd *cobra.Command, f clientFlags) (*caller, error) {
	if f.timeout <= 0 {
		return nil, usage(cmd, fmt.Errorf("--timeout: %v is not positive", f.timeout))
	}
	c := &caller{stderr: a.stderr}
	retries, err := retry.DialOptions(retry.WithOnRetry(c.onRetry))
	if err != nil {
		return nil, err
	}
	c.conn, err = grpc.NewClient(f.addr, append(retries,
		grpc.WithChainUnaryInterceptor(c.observe),
		grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		return nil, err
	}
	c.ledger = ledgerv1.NewLedgerServiceClient(c.conn)
	return c, nil
}

func (c *caller) onRetry(_ context.Context, r retry.Retry) {
	fmt.Fprintf(c.stderr, "attempt %d: %v: %s; again in %v\n",
		r.Attempts, r.Code, status.Convert(r.Err).Message(), r.Wait.Round(time.Millisecond))
}

// observe sees each attempt. The caller makes one call at a time.
func (c *caller) observe(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	c.attempts++
	c.header, c.trailer = nil, nil
	return invoke(ctx, method, req, reply, cc, append(opts, grpc.Header(&c.header), grpc.Trailer(&c.trailer))...)
}

func (c *caller) replayed() bool {
	return len(c.header.Get(replayedHeader))+len(c.trailer.Get(replayedHeader)) > 0
}

func (c *caller) tries() string {
	if c.attempts == 1 {
		return "1 attempt"
	}
	return fmt.Sprintf("%d attempts", c.attempts)
}

// withKey returns the context of calls under the key, and the key: a new one
// where none was chosen.
func (f *keyFlag) withKey(ctx context.Context) (context.Context, string) {
	key := f.key
	if key == "" {
		key = idempotency.NewKey()
	}
	return idempotency.WithKey(ctx, key), key
}

// explain says in words what an error means for something that was to change.
// key is what continues the operation, or "" where the call only reads.
func (c *caller) explain(err error, key string) error {
	st := status.Convert(err)
	text := fmt.Sprintf("%s (%s)", st.Message(), strings.Join(append([]string{st.Code().String()}, reasons(st)...), ", "))
	switch {
	case key == "":
		return errors.New(text)
	case !c.decided(st.Code()):
		return &undecidedError{text, key}
	case c.replayed():
		return fmt.Errorf("refused, and nothing was changed: %s; replayed: it is the first answer under this key", text)
	}
	return fmt.Errorf("refused, and nothing was changed: %s", text)
}

// undecidedError leaves it open whether something was done.
type undecidedError struct{ text, key string }

func (e *undecidedError) Error() string { return e.text + "\n" + e.advice() }

// advice says how to find out.
func (e *undecidedError) advice() string {
	return fmt.Sprintf("it is not known whether it was done; the same command with --key %s finds out, and does it once", e.key)
}

// decided reports whether an answer of that code says that nothing was done.
// What refuses a later attempt at the door says nothing of an earlier one.
func (c *caller) decided(code codes.Code) bool {
	switch code {
	case codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented, codes.ResourceExhausted:
		return c.attempts <= 1
	}
	return dedup.Classify(code) == dedup.Terminal
}

// reasons returns the reason of each ErrorInfo.
func reasons(st *status.Status) []string {
	var out []string
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			out = append(out, info.GetReason())
		}
	}
	return out
}
