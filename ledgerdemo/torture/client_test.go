package torture

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/retrysafe/retrysafe/gen/ledger/v1"
	"github.com/retrysafe/retrysafe/interceptor/idempotency"
	"github.com/retrysafe/retrysafe/interceptor/retry"
)

// dial connects a client with the policy to all servers, in turn.
func dial(tb testing.TB, policy retry.Policy, addrs ...string) *grpc.ClientConn {
	tb.Helper()
	servers := manual.NewBuilderWithScheme("torture")
	var state resolver.State
	for _, addr := range addrs {
		state.Addresses = append(state.Addresses, resolver.Address{Addr: addr})
	}
	servers.InitialState(state)
	options, err := retry.DialOptions(retry.WithPolicy(policy), retry.WithoutBudget())
	if err != nil {
		tb.Fatal(err)
	}
	conn, err := grpc.NewClient("torture:///servers", append(options,
		grpc.WithResolvers(servers),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.5, Jitter: 0.2, MaxDelay: 200 * time.Millisecond},
			MinConnectTimeout: 5 * time.Second,
		}))...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	return conn
}

// answer is what a client was told of a movement of money.
type answer struct {
	entry    *ledgerv1.Entry
	err      error
	replayed bool
}

// invoke makes a call under a key. The entry is the one on the customer's
// account.
func invoke(ctx context.Context, conn *grpc.ClientConn, method, key string, req proto.Message) answer {
	resp := new(ledgerv1.DebitResponse) // a credit's is the same on the wire
	var header, trailer metadata.MD
	err := conn.Invoke(idempotency.WithKey(ctx, key), method, req, resp, grpc.Header(&header), grpc.Trailer(&trailer))
	replayed := len(header.Get("idempotency-replayed"))+len(trailer.Get("idempotency-replayed")) > 0
	return answer{entry: resp.GetEntry(), err: err, replayed: replayed}
}

func eur(n int64) *ledgerv1.Money { return &ledgerv1.Money{Currency: "EUR", MinorUnits: n} }
