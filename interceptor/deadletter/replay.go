package deadletter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/retrysafe/retrysafe/dedup"
	"github.com/retrysafe/retrysafe/interceptor/internal/key"
	"github.com/retrysafe/retrysafe/interceptor/internal/method"
	"github.com/retrysafe/retrysafe/interceptor/internal/nils"
	"github.com/retrysafe/retrysafe/interceptor/internal/wire"
)

// DefaultRetention is how long a server is taken to remember an outcome where
// neither [WithWindow] nor the method's policy says.
const DefaultRetention = 24 * time.Hour

var (
	// ErrTooOld says that the server may have forgotten the letter's operation,
	// so that sending it again could execute it twice. The letter stays.
	ErrTooOld = errors.New("deadletter: the letter is older than the server remembers")
	// ErrUnsendable says that this program cannot send the letter: it does not
	// know the method or the request's type, or the request was redacted; or
	// that it has no key, and nothing says that its method is safe without one
	// (see [WithSafe]). The letter stays.
	ErrUnsendable = errors.New("deadletter: the letter cannot be sent")
)

// Answer is what a replayed letter was answered.
type Answer struct {
	// Reply is the response, nil where Err is not.
	Reply proto.Message
	// Err is the status that the call ended with, nil where it is OK.
	Err error
	// Settled says that the answer is the operation's outcome. The letter has
	// been removed. Otherwise it stays, with the new status and one more
	// attempt, and may be replayed again.
	Settled bool
	// Replayed says that the server had executed the operation before.
	Replayed bool
}

// Replay sends the letter of that id over conn, with the key that all its
// attempts carried, and settles it by the answer. It is one attempt of the
// operation, or as many as the retries on conn make of it; ctx bounds it. It
// must be made as the same caller: see "Who replays" in the package's doc.
//
// The error says that the letter was not sent ([ErrNotFound], [ErrTooOld],
// [ErrUnsendable], or what the queue said), or that it was and that the queue
// could not be told; the Answer then says what came. Replaying a letter twice,
// or from two places at once, does no harm.
func Replay(ctx context.Context, queue Queue, id string, conn grpc.ClientConnInterface, opts ...ReplayOption) (Answer, error) {
	r := replay{}
	err := r.apply(opts)
	if nils.Is(queue) {
		err = errors.Join(errors.New("deadletter: Replay: queue is nil"), err)
	}
	if nils.Is(conn) {
		err = errors.Join(errors.New("deadletter: Replay: conn is nil"), err)
	}
	if err != nil {
		return Answer{}, err
	}
	letter, err := queue.Get(ctx, id)
	if err != nil {
		return Answer{}, err
	}
	answer, err := r.send(ctx, letter, conn)
	if err != nil {
		return Answer{}, err
	}
	return answer, settle(ctx, queue, letter, answer)
}

// send does not change letter: what it opens is not to be kept.
func (r *replay) send(ctx context.Context, letter *Letter, conn grpc.ClientConnInterface) (Answer, error) {
	letter = proto.CloneOf(letter)
	if r.open != nil {
		if err := r.open(ctx, letter); err != nil {
			return Answer{}, fmt.Errorf("deadletter: open: %w", err)
		}
	}
	req, reply, d, err := r.messages(letter)
	if err != nil {
		return Answer{}, err
	}
	if letter.GetIdempotencyKey() != "" {
		end, err := r.end(letter, d)
		if err != nil {
			return Answer{}, err
		}
		// No retry that conn makes is sent after the window either.
		bounded, cancel := context.WithDeadline(ctx, end)
		defer cancel()
		ctx = bounded
	}
	ctx = context.WithValue(ctx, replayKey{}, letter.GetMethod())
	if k := letter.GetIdempotencyKey(); k != "" {
		ctx = withKey(ctx, k)
	}
	var header, trailer metadata.MD
	err = conn.Invoke(ctx, letter.GetMethod(), req, reply, grpc.Header(&header), grpc.Trailer(&trailer))
	if wire.WasNotSent(err) { // so it is no answer
		return Answer{}, fmt.Errorf("deadletter: Replay: %w", err)
	}
	marks := len(header.Get(wire.ReplayedHeader)) + len(trailer.Get(wire.ReplayedHeader))
	answer := Answer{Err: err, Settled: isOutcome(err), Replayed: marks > 0}
	if err == nil {
		answer.Reply = reply
	}
	return answer, nil
}

// withKey returns a context whose call carries k, and no key that the caller's
// metadata may hold: in the context for the interceptors on a conn, in the
// metadata for a conn that has none.
func withKey(ctx context.Context, k string) context.Context {
	md, _ := metadata.FromOutgoingContext(ctx) // a copy
	if md == nil {
		md = metadata.MD{}
	}
	md.Set(wire.KeyHeader, k)
	return key.WithOutgoing(metadata.NewOutgoingContext(ctx, md), k)
}

// messages returns the request to be sent and an empty message for the reply.
func (r *replay) messages(letter *Letter) (req, reply proto.Message, d method.Description, err error) {
	d, ok := method.Describe(letter.GetMethod())
	if !ok {
		return nil, nil, d, fmt.Errorf("%w: method %q is unknown to this program", ErrUnsendable, letter.GetMethod())
	}
	req, err = letter.GetRequest().UnmarshalNew()
	if err != nil || req.ProtoReflect().Descriptor().FullName() != d.Method.Input().FullName() {
		return nil, nil, d, fmt.Errorf("%w: its request is no %s", ErrUnsendable, d.Method.Input().FullName())
	}
	output, err := protoregistry.GlobalTypes.FindMessageByName(d.Method.Output().FullName())
	if err != nil {
		return nil, nil, d, fmt.Errorf("%w: %s is unknown to this program", ErrUnsendable, d.Method.Output().FullName())
	}
	if k := letter.GetIdempotencyKey(); k != "" {
		err = key.Validate(k)
	} else if !d.Safe && !r.safe {
		err = errors.New("it has no key, and the method is not safe without one")
	}
	if err != nil {
		return nil, nil, d, fmt.Errorf("%w: %v", ErrUnsendable, err)
	}
	return req, output.New().Interface(), d, nil
}

// end returns the moment from which on the server may have forgotten the
// letter's outcome, or an error where that has come.
func (r *replay) end(letter *Letter, d method.Description) (time.Time, error) {
	window := r.window
	if window == 0 {
		retention := DefaultRetention
		if own := d.Policy.GetRetention(); own != nil {
			retention = own.AsDuration()
		}
		window = retention - retention/10 // clocks differ, and the call takes time
	}
	if !letter.GetFirstAttemptTime().IsValid() {
		return time.Time{}, fmt.Errorf("%w: its first attempt has no time", ErrTooOld)
	}
	first := letter.GetFirstAttemptTime().AsTime()
	age := time.Since(first)
	if age >= window {
		return time.Time{}, fmt.Errorf("%w: first sent %v ago, the window is %v", ErrTooOld, age.Round(time.Second), window)
	}
	if age < -window/10 { // a clock was set, so nobody knows
		return time.Time{}, fmt.Errorf("%w: first sent %v from now, by this clock", ErrTooOld, -age.Round(time.Second))
	}
	return first.Add(window), nil
}

// isOutcome says whether an answer is what the operation came to, rather than
// a failure to find out or to do it.
func isOutcome(err error) bool {
	if _, ours := wire.ReasonOf(err); ours {
		return false
	}
	return dedup.Classify(status.Code(err)) == dedup.Terminal
}

func settle(ctx context.Context, queue Queue, letter *Letter, answer Answer) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), DefaultPutTimeout)
	defer cancel()
	var err error
	if answer.Settled {
		err = queue.Remove(ctx, letter.GetId())
	} else {
		letter.Attempts++
		letter.LastAttemptTime = timestamppb.Now()
		letter.LastStatus = statusOf(answer.Err)
		err = queue.Update(ctx, letter)
	}
	if errors.Is(err, ErrNotFound) { // another replay of it has settled it
		return nil
	}
	return err
}

type replayKey struct{}

// isReplay says that the call of method made with ctx already has a letter.
// Calls of other methods, such as an interceptor's for a token, have none.
func isReplay(ctx context.Context, method string) bool {
	replayed, _ := ctx.Value(replayKey{}).(string)
	return replayed == method && method != ""
}
