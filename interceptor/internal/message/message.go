// Package message takes what gRPC calls are made with for protobuf messages.
package message

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
)

// Of returns v as the message that grpc's own codec takes it for, also where
// it is one of protobuf's first API. It is false where v is none.
func Of(v any) (proto.Message, bool) {
	switch v := v.(type) {
	case proto.Message:
		return v, true
	case protoadapt.MessageV1:
		return protoadapt.MessageV2Of(v), true
	}
	return nil, false
}
