// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spokewire/sdk-go/cloudevents"
	"github.com/spokewire/sdk-go/cloudevents/internal/engine"
)

// TestPermanentFailuresSpread checks that clients which fail permanently for the same reason do not
// retry all at the same time.
func TestPermanentFailuresSpread(t *testing.T) {
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

// TestBurstDefault checks that without a Burst, the engine sends the events of one second of QPS at
// once.
func TestBurstDefault(t *testing.T) {
	for qps, want := range map[float32]int{10: 10, 2.5: 3, 0.5: 1} {
		withRig(t, engine.Options{QPS: qps, DrainTimeout: -1}, func(r *rig) {
			r.start()
			for i := range 20 {
				r.engine.Enqueue(engine.LaneLive, &note{topic: fmt.Sprint(i)})
			}
			synctest.Wait()
			if n := len(r.transport.topics()); n != want {
				t.Errorf("%d events at once with a QPS of %v, want %d", n, qps, want)
			}
		})
	}
}
