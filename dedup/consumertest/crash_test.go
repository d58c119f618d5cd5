package consumertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// jobVariable tells the test binary, started again, that it is a consumer that
// dies: the broker's URL, the database's path and the point, in lines.
const jobVariable = "CONSUMERTEST_JOB"

func runChild() int {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := child(ctx, strings.Split(os.Getenv(jobVariable), "\n"))
	fmt.Fprintln(os.Stderr, "still alive:", err)
	return 1
}

// child takes one delivery, and kills itself at a point.
func child(ctx context.Context, job []string) error {
	conn, js, err := connect(job[0])
	if err != nil {
		return err
	}
	defer conn.Close()
	store, err := openAccounts(ctx, job[1])
	if err != nil {
		return err
	}
	defer store.Close()
	msg, err := next(ctx, js)
	if err != nil {
		return err
	}
	c := &consumer{store: store, at: func(point string) {
		if point == job[2] {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}}
	_, err = c.handle(ctx, msg)
	return err
}

// TestTheConsumerIsKilled at each point: the next delivery finds out which it
// was, and there is one effect.
func TestTheConsumerIsKilled(t *testing.T) {
	for point, committed := range map[string]bool{"received": false, "debited": false, "committed": true} {
		t.Run(point, func(t *testing.T) {
			r := newRig(t, soon)
			r.publish("payment-1", thirty)
			cmd := exec.CommandContext(r.ctx, os.Args[0])
			cmd.Env = append(os.Environ(), jobVariable+"="+strings.Join([]string{r.broker.server.ClientURL(), r.path, point}, "\n"))
			cmd.Stderr = os.Stderr
			var exit *exec.ExitError
			if err := cmd.Run(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("the consumer was not killed: %v", err)
			}
			if committed {
				r.wantBalance(70)
			} else {
				r.wantBalance(100)
			}
			msg := r.next()
			r.wantDelivery(msg, 2)
			result, err := r.consumer.handle(r.ctx, msg)
			if err != nil || result.Replayed != committed {
				t.Errorf("%+v, %v; want a replay: %v", result, err, committed)
			}
			r.wantBalance(70)
			r.wantSettled()
		})
	}
}
