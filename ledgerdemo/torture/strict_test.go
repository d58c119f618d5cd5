package torture

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	ledgerv1 "github.com/retrysafe/retrysafe/gen/ledger/v1"
)

// strictDebit and strictCredit are the ledger's methods under the other policy
// for an unknown outcome: it is not executed again.
const (
	strictService = "torture.v1.StrictLedger"
	strictDebit   = "/" + strictService + "/Debit"
	strictCredit  = "/" + strictService + "/Credit"
)

const strictFile = `
name: "torture/v1/strict.proto" package: "torture.v1" syntax: "proto3"
dependency: "ledger/v1/ledger.proto"
service {
  name: "StrictLedger"
  method {
    name: "Debit" input_type: ".ledger.v1.DebitRequest" output_type: ".ledger.v1.DebitResponse"
    options { [retrysafe.v1.policy] { key: KEY_REQUIRED on_unknown_outcome: UNKNOWN_OUTCOME_REJECT } }
  }
  method {
    name: "Credit" input_type: ".ledger.v1.CreditRequest" output_type: ".ledger.v1.CreditResponse"
    options { [retrysafe.v1.policy] { key: KEY_REQUIRED on_unknown_outcome: UNKNOWN_OUTCOME_REJECT } }
  }
}`

// registered is whether the service is in the registry: once, for client and
// server.
var registered = func() error {
	fd := new(descriptorpb.FileDescriptorProto)
	if err := prototext.Unmarshal([]byte(strictFile), fd); err != nil {
		return err
	}
	file, err := protodesc.NewFile(fd, protoregistry.GlobalFiles)
	if err != nil {
		return err
	}
	return protoregistry.GlobalFiles.RegisterFile(file)
}()

// registerStrict serves the service by the ledger's handlers.
func registerStrict(srv *grpc.Server, l ledgerv1.LedgerServiceServer) {
	srv.RegisterService(&grpc.ServiceDesc{
		ServiceName: strictService,
		HandlerType: (*ledgerv1.LedgerServiceServer)(nil),
		Methods: []grpc.MethodDesc{
			{MethodName: "Debit", Handler: unary(strictDebit, l.Debit)},
			{MethodName: "Credit", Handler: unary(strictCredit, l.Credit)},
		},
	}, l)
}

// unary is what generated code makes of a method.
func unary[Request, Response any](fullMethod string, method func(context.Context, *Request) (*Response, error)) grpc.MethodHandler {
	return func(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		req := new(Request)
		if err := decode(req); err != nil {
			return nil, err
		}
		handle := func(ctx context.Context, req any) (any, error) {
			resp, err := method(ctx, req.(*Request))
			if err != nil {
				return nil, err
			}
			return resp, nil
		}
		if intercept == nil {
			return handle(ctx, req)
		}
		return intercept(ctx, req, &grpc.UnaryServerInfo{FullMethod: fullMethod}, handle)
	}
}
