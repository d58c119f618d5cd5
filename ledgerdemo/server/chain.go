package server

import (
	"context"
	"log/slog"
	"runtime/debug"
	"slices"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/logging"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/selector"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ledgerv1 "github.com/retrysafe/retrysafe/gen/ledger/v1"
	"github.com/retrysafe/retrysafe/interceptor/idempotency"
	"github.com/retrysafe/retrysafe/interceptor/retry"
	"github.com/retrysafe/retrysafe/ledgerdemo/faults"
)

// chain returns the interceptors in the order in which the package's doc has
// them.
func chain(c Config, injector *faults.Injector, once *idempotency.Server) ([]grpc.UnaryServerInterceptor, error) {
	owner, err := retry.UnaryServerInterceptor(retry.WithLogger(c.Logger))
	if err != nil {
		return nil, err
	}
	log := logging.UnaryServerInterceptor(logTo(c.Logger), logging.WithLogOnEvents(logging.FinishCall))
	all := []grpc.UnaryServerInterceptor{
		selector.UnaryServerInterceptor(log, selector.MatchFunc(isLedger)),
		recovery.UnaryServerInterceptor(recovery.WithRecoveryHandlerContext(recovered(c.Logger))),
		selector.UnaryServerInterceptor(injector.Intercept, selector.MatchFunc(isDebit)),
		owner,
	}
	if !c.WithoutDedup {
		all = append(all, once.Intercept)
	}
	return append(all, selector.UnaryServerInterceptor(injector.Hold, selector.MatchFunc(isDebit))), nil
}

func isLedger(_ context.Context, call interceptors.CallMeta) bool {
	return call.Service == ledgerv1.LedgerService_ServiceDesc.ServiceName
}

func isDebit(_ context.Context, call interceptors.CallMeta) bool {
	return call.FullMethod() == ledgerv1.LedgerService_Debit_FullMethodName
}

// logTo passes log lines on, but for the error's text: a refusal tells its
// caller what the account holds, and that is nobody else's business.
func logTo(l *slog.Logger) logging.Logger {
	return logging.LoggerFunc(func(ctx context.Context, level logging.Level, message string, fields ...any) {
		for i := 0; i+1 < len(fields); i += 2 {
			if fields[i] == "grpc.error" {
				fields = slices.Delete(slices.Clone(fields), i, i+2)
				break
			}
		}
		l.Log(ctx, slog.Level(level), message, fields...)
	})
}

func recovered(l *slog.Logger) recovery.RecoveryHandlerFuncContext {
	return func(ctx context.Context, _ any) error {
		l.ErrorContext(ctx, "a handler panicked", "stack", string(debug.Stack()))
		return status.Error(codes.Internal, "the ledger failed")
	}
}
