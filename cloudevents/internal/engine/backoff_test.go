// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
)

// TestBackoff checks the pace of attempts: close together at first, and at most ten seconds apart.
// A permanent failure is retried at the slowest pace, and Healthy returns the failure.
func TestBackoff(t *testing.T) {
	withRig(t, engine.Options{}, func(r *rig) {
		r.transport.setRefuse(errTest)
		r.start()
		time.Sleep(10 * time.Minute)
		attempts := r.transport.attempted()
		for i := 1; i < len(attempts); i++ {
			gap := attempts[i].Sub(attempts[i-1])
			if gap < 100*time.Millisecond || gap > 10*time.Second || i == 1 && gap > 130*time.Millisecond {
				t.Errorf("%s between attempts %d and %d", gap, i-1, i)
			}
		}
		if n := len(attempts); n < 60 || n > 100 {
			t.Errorf("%d attempts in ten minutes", n)
		}
		if err := r.engine.Healthy(); !errors.Is(err, errTest) {
			t.Errorf("Healthy: %v", err)
		}
		r.transport.setRefuse(nil)
		time.Sleep(10 * time.Second)
		if err := r.engine.Healthy(); err != nil {
			t.Error(err)
		}
		r.transport.setRefuse(&cloudevents.PermanentError{Err: errTest})
		r.transport.current().cut(errTest)
		time.Sleep(time.Minute)
		if n := len(r.transport.attempted()) - len(attempts); n > 9 {
			t.Errorf("%d attempts at something permanent in a minute", n)
		}
	})
}

// TestPermanentFailuresHaveJitter checks that clients which fail permanently for the same reason do not
// retry all at the same time.
func TestPermanentFailuresHaveJitter(t *testing.T) {
	const clients = 10
	synctest.Test(t, func(t *testing.T) {
		transports := make([]*fakeTransport, clients)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		for i := range transports {
			transports[i] = &fakeTransport{refuse: &cloudevents.PermanentError{Err: errTest}}
			e, err := engine.New(transports[i], options(fmt.Sprint(i)))
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				if err := e.Start(ctx); err != nil {
					t.Error(err)
				}
			}()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		second := map[time.Time]bool{}
		for _, transport := range transports {
			attempts := transport.attempted()
			for i := 1; i < len(attempts); i++ {
				if gap := attempts[i].Sub(attempts[i-1]); gap < 7690*time.Millisecond || gap > 10*time.Second {
					t.Errorf("%s between two attempts", gap)
				}
			}
			second[attempts[1]] = true
		}
		if len(second) < clients {
			t.Errorf("%d clients made their second attempts at %d moments", clients, len(second))
		}
		stop()
		synctest.Wait()
	})
}
