package redisstore

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// scripted is a driver whose Listen is what the test says.
type scripted struct {
	Driver
	listen func(ctx context.Context, listening func(), heard func(string)) error
}

func (d scripted) Listen(ctx context.Context, _ string, listening func(), heard func(string)) error {
	return d.listen(ctx, listening, heard)
}

func woken(w <-chan struct{}) bool {
	select {
	case <-w:
		return true
	default:
		return false
	}
}

func TestAListenerWakesAllWhenItsConnectionComesAndGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		confirm, lose := make(chan struct{}), make(chan struct{})
		l := newListener(scripted{listen: func(ctx context.Context, listening func(), _ func(string)) error {
			select {
			case <-confirm:
				listening()
			case <-ctx.Done():
				return ctx.Err()
			}
			<-lose
			return errors.New("lost")
		}}, "channel", slog.New(slog.DiscardHandler))
		defer l.close()

		for range 3 {
			w, poll, cancel := l.subscribe("operation")
			if poll != deafInterval {
				t.Errorf("polls every %v before it listens, want %v", poll, deafInterval)
			}
			confirm <- struct{}{}
			synctest.Wait()
			if !woken(w) {
				t.Error("what happened before it listened is missed")
			}
			cancel()

			w, poll, cancel = l.subscribe("operation")
			if poll != pollInterval {
				t.Errorf("polls every %v while it listens, want %v", poll, pollInterval)
			}
			lose <- struct{}{}
			synctest.Wait()
			if !woken(w) {
				t.Error("what happens while nobody listens is missed")
			}
			cancel()
		}
	})
}

func TestAListenerWakesWhomAMessageNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		messages := make(chan string)
		l := newListener(scripted{listen: func(ctx context.Context, listening func(), heard func(string)) error {
			listening()
			for {
				select {
				case m := <-messages:
					heard(m)
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}}, "channel", slog.New(slog.DiscardHandler))
		defer l.close()
		_, _, cancel := l.subscribe("to start it")
		defer cancel()
		synctest.Wait()

		one, _, cancelOne := l.subscribe("one")
		defer cancelOne()
		two, _, cancelTwo := l.subscribe("two")
		defer cancelTwo()
		messages <- "one"
		messages <- "nobody waits for this"
		synctest.Wait()
		if !woken(one) || woken(two) {
			t.Errorf("woken: one %v, two %v; want one alone", woken(one), woken(two))
		}
	})
}

func TestAListenerThatCannotConnectTriesEverLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries int
		l := newListener(scripted{listen: func(context.Context, func(), func(string)) error {
			tries++
			return errors.New("connection refused")
		}}, "channel", slog.New(slog.DiscardHandler))
		_, _, cancel := l.subscribe("operation")
		defer cancel()
		time.Sleep(10 * time.Minute)
		l.close()
		if least, most := int(10*time.Minute/maxListenBackoff), 2*int(10*time.Minute/maxListenBackoff)+20; tries < least || tries > most {
			t.Errorf("%d tries in ten minutes, want %d to %d", tries, least, most)
		}
	})
}
