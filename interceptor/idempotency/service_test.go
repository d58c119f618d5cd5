package idempotency_test

import (
	"context"
	"net"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/interceptor/idempotency"
)

// The service of these tests, with a policy of each kind. Its request has a
// string field that can hold a key.
const (
	place = "/idempotency.test.v1.Orders/Place" // REQUIRED, REJECT
	offer = "/idempotency.test.v1.Orders/Offer" // OPTIONAL
	named = "/idempotency.test.v1.Orders/Named" // REQUIRED, in the field request_id
	look  = "/idempotency.test.v1.Orders/Look"  // says nothing
)

const ordersFile = `
name: "idempotency/test/v1/orders.proto" package: "idempotency.test.v1" syntax: "proto3"
dependency: "google/rpc/error_details.proto"
service {
  name: "Orders"
  method {
    name: "Place" input_type: ".google.rpc.RequestInfo" output_type: ".google.rpc.ResourceInfo"
    options { [retrysafe.v1.policy] {
      key: KEY_REQUIRED retention { seconds: 3600 } max_execution { seconds: 7 } on_unknown_outcome: UNKNOWN_OUTCOME_REJECT
    } }
  }
  method {
    name: "Offer" input_type: ".google.rpc.RequestInfo" output_type: ".google.rpc.ResourceInfo"
    options { [retrysafe.v1.policy] { key: KEY_OPTIONAL } }
  }
  method {
    name: "Named" input_type: ".google.rpc.RequestInfo" output_type: ".google.rpc.ResourceInfo"
    options { [retrysafe.v1.policy] { key: KEY_REQUIRED key_field: "request_id" } }
  }
  method { name: "Look" input_type: ".google.rpc.RequestInfo" output_type: ".google.rpc.ResourceInfo" }
}`

// registered is whether the service is in the registry: once, for all tests.
var registered = register()

func register() error {
	fd := new(descriptorpb.FileDescriptorProto)
	if err := prototext.Unmarshal([]byte(ordersFile), fd); err != nil {
		return err
	}
	file, err := protodesc.NewFile(fd, protoregistry.GlobalFiles)
	if err != nil {
		return err
	}
	return protoregistry.GlobalFiles.RegisterFile(file)
}

// handler is what a test has as its business logic, for every method.
type handler func(ctx context.Context, method string, req *errdetails.RequestInfo) (*errdetails.ResourceInfo, error)

func serviceDesc(h handler) *grpc.ServiceDesc {
	desc := &grpc.ServiceDesc{ServiceName: "idempotency.test.v1.Orders", HandlerType: (*any)(nil)}
	for _, fullMethod := range []string{place, offer, named, look} {
		desc.Methods = append(desc.Methods, grpc.MethodDesc{
			MethodName: fullMethod[len("/idempotency.test.v1.Orders/"):],
			Handler: func(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
				req := new(errdetails.RequestInfo)
				if err := decode(req); err != nil {
					return nil, err
				}
				run := func(ctx context.Context, req any) (any, error) {
					resp, err := h(ctx, fullMethod, req.(*errdetails.RequestInfo))
					if err != nil {
						return nil, err
					}
					return resp, nil
				}
				return intercept(ctx, req, &grpc.UnaryServerInfo{FullMethod: fullMethod}, run)
			},
		})
	}
	return desc
}

// service is a real server and a client of it.
type service struct {
	t    testing.TB
	conn *grpc.ClientConn
}

// serve starts the service behind its own server interceptor.
func serve(t testing.TB, store dedup.Store, h handler, opts ...idempotency.ServerOption) service {
	t.Helper()
	if registered != nil {
		t.Fatal(registered)
	}
	once, err := idempotency.NewServer(store, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = once.Close() })
	return serveBehind(t, h, []grpc.UnaryServerInterceptor{once.Intercept})
}

func serveBehind(t testing.TB, h handler, interceptors []grpc.UnaryServerInterceptor, opts ...grpc.DialOption) service {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	srv := grpc.NewServer(grpc.ChainUnaryInterceptor(interceptors...))
	srv.RegisterService(serviceDesc(h), nil)
	done := make(chan error, 1)
	go func() { done <- srv.Serve(listener) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	conn, err := grpc.NewClient("passthrough:///orders", append(opts,
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return service{t, conn}
}

// reply is all that came back from a call.
type reply struct {
	resp            *errdetails.ResourceInfo
	header, trailer metadata.MD
	err             error
}

func (s service) call(ctx context.Context, method string, req *errdetails.RequestInfo) reply {
	r := reply{resp: new(errdetails.ResourceInfo)}
	r.err = s.conn.Invoke(ctx, method, req, r.resp, grpc.Header(&r.header), grpc.Trailer(&r.trailer))
	return r
}

// withKey is a call's context with a key in its metadata.
func withKey(t testing.TB, k string) context.Context {
	return metadata.AppendToOutgoingContext(t.Context(), idempotency.MetadataKey, k)
}

func request(data string) *errdetails.RequestInfo { return &errdetails.RequestInfo{ServingData: data} }

// replayed says whether the header marks a replay, and the trailer.
func (r reply) replayed() (header, trailer bool) {
	return isMarked(r.header), isMarked(r.trailer)
}

func isMarked(md metadata.MD) bool {
	v := md.Get("idempotency-replayed")
	return len(v) == 1 && v[0] == "true"
}
