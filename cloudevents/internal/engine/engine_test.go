// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
)

func TestNewOnUsedTransport(t *testing.T) {
	if _, err := engine.New(&fakeTransport{claimed: true}, options("a")); !errors.Is(err, cloudevents.ErrClaimed) {
		t.Errorf("got error %v, want ErrClaimed", err)
	}
}

// TestReadyAfterRequestsAreAcknowledged checks that the engine is ready only after the broker has acknowledged
// the requests.
func TestReadyAfterRequestsAreAcknowledged(t *testing.T) {
	withRig(t, engine.Options{}, func(r *rig) {
		r.transport.setHold(true)
		r.handler.requests = []engine.Item{&note{topic: "request"}}
		r.start()
		expectTopics(t, r.transport, "request")
		select {
		case <-r.engine.Ready():
			t.Error("ready before the broker has the request")
		default:
		}
		r.transport.current().settleHeld(nil)
		synctest.Wait()
		<-r.engine.Ready()
	})
}

// TestNotReadyIfConnectionEndsFirst checks that the engine is not ready if the connection ends before the
// broker has the requests. The order in which the end is noticed does not matter.
func TestNotReadyIfConnectionEndsFirst(t *testing.T) {
	for range 50 { // the order is random
		withRig(t, engine.Options{}, func(r *rig) {
			r.handler.requests = []engine.Item{&note{topic: "request"}}
			r.transport.setHold(true)
			r.start()
			r.transport.setRefuse(errTest)
			conn := r.transport.current()
			conn.settleHeld(cloudevents.ErrConnectionLost)
			synctest.Wait()
			conn.cut(errTest)
			synctest.Wait()
			select {
			case <-r.engine.Ready():
				t.Error("ready although the broker never had the request")
			default:
			}
			r.transport.setHold(false)
			r.transport.setRefuse(nil)
			time.Sleep(time.Second)
			select {
			case <-r.engine.Ready():
			default:
				t.Error("not ready although the next connection's request is acknowledged")
			}
		})
	}
}

func TestStartTwice(t *testing.T) {
	withRig(t, engine.Options{}, func(r *rig) {
		r.start()
		if err := r.engine.Start(context.Background()); !errors.Is(err, cloudevents.ErrStarted) {
			t.Errorf("a second Start returned %v", err)
		}
		r.end()
		if err := r.engine.Healthy(); err == nil || !strings.Contains(err.Error(), "stopped since") {
			t.Errorf("Healthy after the end: %v", err)
		}
		if r.handler.connected != 1 {
			t.Errorf("connected %d times", r.handler.connected)
		}
	})
}
