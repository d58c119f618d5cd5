package retry

import (
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/retrysafe/retrysafe/interceptor/internal/wire"
)

// pushback returns what the server says of the next attempt: in the trailer
// grpc-retry-pushback-ms of the attempt that failed, or else in the RetryInfo
// of its status.
func pushback(trailer metadata.MD, st *status.Status) (time.Duration, wire.Pushback) {
	if values := trailer.Get(wire.PushbackTrailer); len(values) > 0 {
		return wire.ParsePushback(values)
	}
	wait, verdict := time.Duration(0), wire.PushbackNone
	for _, detail := range st.Details() {
		info, ok := detail.(*errdetails.RetryInfo)
		if !ok || info.GetRetryDelay() == nil {
			continue
		}
		delay := info.GetRetryDelay()
		if verdict != wire.PushbackNone || delay.CheckValid() != nil || delay.AsDuration() < 0 {
			return 0, wire.PushbackStop
		}
		wait, verdict = delay.AsDuration(), wire.PushbackWait
	}
	return wait, verdict
}
