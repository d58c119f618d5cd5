package idempotency

import (
	"fmt"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/interceptor/internal/message"
)

// outcomeOf returns what a handler answered, without metadata. It serializes
// the response into buf where that fits. The error is a status: the answer
// cannot be sent, now or again.
func outcomeOf(resp any, err error, buf []byte) (dedup.Outcome, error) {
	if err != nil {
		return outcomeOfError(err), nil
	}
	m, ok := message.Of(resp)
	if !ok {
		return dedup.Outcome{}, status.Errorf(codes.Internal, "retrysafe: the handler returned %T, which is no protobuf message", resp)
	}
	value, err := proto.MarshalOptions{}.MarshalAppend(buf, m)
	if err != nil {
		return dedup.Outcome{}, status.Errorf(codes.Internal, "retrysafe: the response cannot be serialized: %v", err)
	}
	return dedup.Outcome{Response: dedup.Payload{Type: string(m.ProtoReflect().Descriptor().FullName()), Value: value}}, nil
}

func outcomeOfError(err error) dedup.Outcome {
	st := statusOf(err)
	out := dedup.Outcome{Code: st.Code(), Message: st.Message()}
	for _, d := range st.Proto().GetDetails() {
		out.Details = append(out.Details, dedup.Payload{Type: d.GetTypeUrl(), Value: d.GetValue()})
	}
	return out
}

// statusOf returns the status that grpc-go sends for a handler's error. An
// error that claims to be OK is UNKNOWN.
func statusOf(err error) *status.Status {
	st, ok := status.FromError(err)
	if !ok {
		st = status.FromContextError(err)
	}
	if st.Code() == codes.OK {
		return status.New(codes.Unknown, err.Error())
	}
	return st
}

// answerOf returns a recorded outcome as a handler's answer. want is the
// method's response type, "" where it is not known. The error alone wraps
// [dedup.ErrRecordUnreadable]; an outcome that is an error is returned as
// answer.
func answerOf(out *dedup.Outcome, want protoreflect.FullName) (resp proto.Message, answer *status.Status, err error) {
	if out.Code != codes.OK {
		st := &spb.Status{Code: int32(out.Code), Message: out.Message}
		for _, d := range out.Details {
			st.Details = append(st.Details, &anypb.Any{TypeUrl: d.Type, Value: d.Value})
		}
		return nil, status.FromProto(st), nil
	}
	name := protoreflect.FullName(out.Response.Type)
	if want != "" && name != want {
		return nil, nil, fmt.Errorf("%w: its response is a %q, not the method's %s", dedup.ErrRecordUnreadable, name, want)
	}
	mt, err := protoregistry.GlobalTypes.FindMessageByName(name)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: the response's type %q is not linked into this program", dedup.ErrRecordUnreadable, name)
	}
	resp = mt.New().Interface()
	if err := proto.Unmarshal(out.Response.Value, resp); err != nil {
		return nil, nil, fmt.Errorf("%w: its response is no %s", dedup.ErrRecordUnreadable, name)
	}
	return resp, nil, nil
}
