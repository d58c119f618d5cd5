package retry

import (
	"reflect"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	"github.com/retrysafe/retrysafe/interceptor/internal/message"
	"github.com/retrysafe/retrysafe/interceptor/internal/nils"
)

// reset makes reply as new before it is filled again, so that nothing of an
// earlier attempt is left in it.
func reset(reply any) {
	if nils.Is(reply) {
		return
	}
	if m, ok := message.Of(reply); ok {
		proto.Reset(m)
		return
	}
	if r, ok := reply.(interface{ Reset() }); ok {
		r.Reset()
		return
	}
	if v := reflect.ValueOf(reply); v.Kind() == reflect.Pointer {
		v.Elem().SetZero()
	}
}

// forget empties what call options hold of an earlier attempt. grpc-go
// overwrites it only where the next attempt gets as far as a stream.
func forget(opts []grpc.CallOption) {
	for _, o := range opts {
		switch o := o.(type) {
		case grpc.HeaderCallOption:
			if o.HeaderAddr != nil {
				*o.HeaderAddr = nil
			}
		case grpc.TrailerCallOption:
			if o.TrailerAddr != nil {
				*o.TrailerAddr = nil
			}
		case grpc.PeerCallOption:
			if o.PeerAddr != nil {
				*o.PeerAddr = peer.Peer{}
			}
		}
	}
}
